"""Errors that a user can mend: each says what is wrong, where, and how to fix it."""


class UserError(ValueError):
    """A mistake in what was asked for or given; shown without a traceback."""


class RefusalError(UserError):
    """Something was asked of a part that it cannot do; the message says why and what can."""


class StoppedError(Exception):
    """Work was stopped; everything is kept, and the same command goes on."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code

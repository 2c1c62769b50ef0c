"""Packages of other tools, which Regard itself does not need."""

import warnings
from importlib import import_module
from typing import Any

from regard.errors import UserError


def installed(name: str) -> Any:
    """The module of that name; what it warns of while it is imported is no concern of the user."""
    try:
        with warnings.catch_warnings(action="ignore"):
            module = import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise UserError(f"{package} cannot be imported ({error}); pip install 'regard[exchange]'") from error
    if name == "transformers":
        module.logging.set_verbosity_error()
        module.logging.disable_progress_bar()
    return module

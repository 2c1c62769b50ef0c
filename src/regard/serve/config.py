"""How much a service takes on."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Everything that a client can make large has a bound, and is measured before anything is done with it."""

    body: int = 1 << 20  # bytes of a request
    texts: int = 64  # texts of a request
    characters: int = 5_000  # characters of a text
    all_characters: int = 40_000  # characters of a request
    lines: int = 1_000  # lines of a request, which are translated each by itself
    requests: int = 256
    """Requests at once whose body has arrived; more are told to come back. As many may still be sending theirs."""
    sending: int = 32  # requests that a client may still be sending; with one more, its oldest is given up
    wait: float = 3.0
    """Seconds that a request would have to wait, as far as can be told; beyond them it is told to come back."""
    best: int = 8  # outputs for one text
    tokens: int = 1_024  # tokens of an output that is asked for
    all_tokens: int = 8_192  # tokens of all outputs of a request
    stops: int = 4  # strings that stop an output, each of at most 100 characters
    likely: int = 5  # words beside the one said, of which a request may ask for probabilities
    weights: int = 1 << 20  # numbers of an answer about attention
    multiplications: int = 1 << 38  # parameters times tokens of all pairs that are aligned for a request
    together: int = 64  # lines that are decoded at once
    long: float = 10.0
    """Seconds that a request would be in work, as far as can be told; one that takes longer is refused."""
    seconds: float = 60.0  # of a request, in the queue and in work
    unsure: float = 2.0  # seconds without a sign of life, after which a worker is not called ready
    silence: float = 5.0  # and after which it is replaced
    stuck: float = 45.0  # seconds without progress of a job, after which likewise
    header: float = 10.0  # seconds in which a request has to have arrived
    drain: float = 10.0  # seconds that requests get to end when the service is told to

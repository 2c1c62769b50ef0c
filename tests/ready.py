"""A loaded model, ready to use."""

from typing import Any

from regard.tasks.folder import Loaded


def ready(loaded: Loaded, **options: Any) -> Any:
    return loaded.spec.runtime(loaded, **options)

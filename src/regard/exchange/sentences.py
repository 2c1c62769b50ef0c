"""What sentence-transformers keeps beside an encoder: how one vector is made of a text, and where texts are cut."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.exchange.families import Given
from regard.files import read_regular
from regard.models.config import BertConfig

POOLING: dict[str, Any] = {"mean_tokens": "mean", "mean": "mean", "cls_token": "first", "cls": "first"}
MODULES = ["Transformer", "Pooling", "Normalize"]  # ours are always of length 1, so the last may be missing


def read_sentences(folder: Path, config: BertConfig, longest: int) -> tuple[BertConfig, int]:
    """Settings with their pooling, and the longest text; raises UserError with everything that is unknown here."""
    if not (folder / "modules.json").is_file():
        return config, longest
    try:
        kinds = [str(module["type"]).rpartition(".")[2] for module in _json(folder / "modules.json")]
        modes = {k.removeprefix("pooling_mode_"): v for k, v in _json(folder / "1_Pooling" / "config.json").items()}
        beside = [folder / name for name in ("config_sentence_transformers.json", "sentence_bert_config.json")]
        settings = [dict(_json(path)) for path in beside if path.is_file()]
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UserError(f"{folder}: how it makes vectors of texts cannot be read ({error!r}); copy it again") from error
    named = modes.get("pooling_mode") or "+".join(k for k, v in modes.items() if v is True and k != "include_prompt")
    given = Given({"pooling": named} | {k: v for each in settings for k, v in each.items()})
    pooling = given.only("pooling", None, *POOLING)
    given.only("do_lower_case", False, False)
    given.only("default_prompt_name", None, None)
    cut = given.number("max_seq_length", longest)
    if kinds not in (MODULES, MODULES[:2]):
        given.problems.append(f"its modules are {', '.join(kinds)}, and Regard knows {', '.join(MODULES)}")
    if given.problems:
        raise UserError(f"{folder}: {'; '.join(given.problems)}")
    return replace(config, pooling=POOLING[pooling]), min(int(cut), longest)


def _json(path: Path) -> Any:
    return json.loads(read_regular(path))

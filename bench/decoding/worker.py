"""One contender, in a process of its own, that translates when it is told to and is idle otherwise.

    python -m bench.decoding.worker CONTENDER SHAPE

Answers each line of JSON, {"texts": [..], "beam": 5, "single": false}, by seconds (of each text, where they come one by
one) and outputs. Text goes in and text comes out; what is measured is all between. Ends with its input.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.decoding.models import FOLDER, LONGEST

from regard.decode.config import Beam, Greedy, Search
from regard.tasks.folder import load_folder
from regard.tasks.translation.runtime import Translator

Translate = Callable[[list[str], int], list[str]]
BATCH = 32  # sentences of a batch: where CTranslate2 is best here
MOST = 100  # tokens of an output


def search(beam: int) -> Search:
    return Greedy(max_length=MOST) if beam == 1 else Beam(size=beam, max_length=MOST)  # as long as CTranslate2 may go


def regard(shape: str, engine: str, *, small: bool) -> Translate:
    folder = FOLDER / f"{shape}-native" if small else folder_of(shape)
    model = Translator(load_folder(folder), engine=engine)  # type: ignore[arg-type]

    def translate(texts: list[str], beam: int) -> list[str]:
        model.search = search(beam)
        return [model.text(found[0]) for found in model.hypotheses(texts)]

    return translate


def folder_of(shape: str) -> Path:
    return Path((FOLDER / "tiny.path").read_text()) if shape == "tiny" else FOLDER / shape


def ctranslate2(shape: str, precision: str) -> Translate:
    """With two workers of one thread each: with one of two it is many times slower on two cores."""
    import ctranslate2

    from regard.exchange.export import token_names

    folder = str(FOLDER / f"{shape}-ctranslate2")
    translator = ctranslate2.Translator(folder, compute_type=precision, inter_threads=2, intra_threads=1)
    tokenizers = load_folder(folder_of(shape)).tokenizers
    assert tokenizers is not None
    source, target = (token_names(Path(folder), each) for each in (tokenizers.text, tokenizers.target))
    numbers = {word: i for i, word in enumerate(target)}

    def translate(texts: list[str], beam: int) -> list[str]:
        rows = [[source[i] for i in row] for row in tokenizers.read(texts)]
        found = translator.translate_batch(rows, beam_size=beam, max_batch_size=BATCH, max_decoding_length=MOST)
        return [tokenizers.target.decode([numbers[word] for word in each.hypotheses[0]]) for each in found]

    return translate


def huggingface(shape: str) -> Translate:
    import torch
    from transformers import AutoModelForSeq2SeqLM

    from regard.shapes import Padded

    model = AutoModelForSeq2SeqLM.from_pretrained(FOLDER / f"{shape}-huggingface").eval()
    loaded = load_folder(folder_of(shape))
    if shape == "base":  # its positions are not those of its width; the export put every second number last
        for side, ours in (("encoder", "source_embedding"), ("decoder", "target_embedding")):
            places = getattr(model.model, side).embed_positions.weight
            table = getattr(loaded.model, ours).position.encoding.table.data
            places.data[:LONGEST] = torch.cat((table[:, 0::2], table[:, 1::2]), 1)
    tokenizers = loaded.tokenizers
    assert tokenizers is not None

    @torch.no_grad()
    def translate(texts: list[str], beam: int) -> list[str]:
        rows = tokenizers.read(texts)
        order, said = sorted(range(len(rows)), key=lambda i: -len(rows[i])), [""] * len(rows)
        for at in range(0, len(order), BATCH):
            members = order[at : at + BATCH]
            batch = Padded.of([rows[i] for i in members])
            mask = torch.arange(batch.tokens.shape[1])[None] < batch.lengths[:, None]
            how: dict[str, Any] = {"num_beams": beam, "do_sample": False, "max_new_tokens": MOST}
            found = model.generate(batch.tokens, attention_mask=mask.long(), pad_token_id=loaded.config.end, **how)
            for i, ids in zip(members, found[:, 1:].tolist(), strict=True):
                end = ids.index(loaded.config.end) if loaded.config.end in ids else len(ids)
                said[i] = tokenizers.target.decode(ids[:end])
        return said

    return translate


CONTENDERS: dict[str, Callable[[str], Translate]] = {
    "CTranslate2 int8": lambda shape: ctranslate2(shape, "int8"),
    "Regard native int8": lambda shape: regard(shape, "native", small=True),
    "CTranslate2 float32": lambda shape: ctranslate2(shape, "float32"),
    "Regard native float32": lambda shape: regard(shape, "native", small=False),
    "Regard torch": lambda shape: regard(shape, "torch", small=False),
    "Hugging Face generate": huggingface,
}


def main(contender: str, shape: str) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints is no answer
    translate = CONTENDERS[contender](shape)
    translate(["a man ."], 1)
    print("{}", file=answers, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        texts, beam = asked["texts"], asked["beam"]
        parts = [[text] for text in texts] if asked["single"] else [texts]
        seconds, outputs = list[float](), list[str]()
        for part in parts:
            began = time.perf_counter()
            outputs += translate(part, beam)
            seconds.append(time.perf_counter() - began)
        print(json.dumps({"seconds": seconds, "outputs": outputs}), file=answers, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

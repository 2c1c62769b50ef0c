"""Models of other tools, and for them, each checked on the spot: the same few texts are decoded here and there."""

import copy
import json
import os
import re
import time
from collections.abc import Callable, Sequence
from importlib.resources import files
from itertools import chain, cycle
from pathlib import Path
from string import Template
from typing import Any

import torch
from tokenizers import Tokenizer as Library

from regard import __version__
from regard.data.tokenizer import SHOWN_UNKNOWN, UNKNOWN, ForeignTokenizer, Tokenizer
from regard.decode.config import Greedy, Hypothesis
from regard.engine.engine import Engine
from regard.engine.native import NativeEngine
from regard.engine.prepare import NATIVE, prepared_of, write_prepared
from regard.engine.torch import TorchEngine
from regard.errors import UserError
from regard.exchange.ctranslate2 import decode_ctranslate2, write_ctranslate2
from regard.exchange.huggingface import GENERATION, compare_numbers, kind_of, read_folder, write_folder, write_reader
from regard.exchange.installed import installed
from regard.exchange.onnx import write_onnx
from regard.exchange.onnxrun import OnnxModel
from regard.exchange.words import write_tokenizer
from regard.files import new_folder, write
from regard.rng import Key
from regard.shapes import Padded
from regard.tasks.folder import Loaded, load_folder, save_model, save_settings, save_tokenizers
from regard.tasks.translation.task import log_probs

AT_RANDOM, LONGEST = 8, 48  # texts of words at random that are decoded both ways, and tokens of an output at most
PRECISIONS = ("int8", "float32")  # of the native engine
NEVER = -1e4  # a bias that half precision can hold
Rows = list[list[int]]
Checked = tuple[str, Rows]  # how a check went, and what was written


def export(loaded: Loaded, kind: str, out: Path, texts: Sequence[str] = (), precision: str = "int8") -> str:
    """Write a model, run texts (or words at random) both ways, and tell how that went; a failed one is undone."""
    if kind not in ("native", *FORMATS):
        raise UserError(f"`to` {kind}: there is no such format; choose native, {', '.join(FORMATS)}")
    if loaded.spec.form == "example" and kind != "huggingface":
        raise UserError(f"`to` {kind} is for models that write; a reader goes `to` huggingface")
    tokenizers = loaded.words
    new_place(out)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    with new_folder(out) as folder:
        texts, rows = read_texts(loaded, texts)
        if kind == "native":
            summary = _native(loaded, folder, rows, precision)
        elif "words" in tokenizers.text.content():  # its ids are not those of its library's file
            summary, _ = FORMATS[kind](loaded, folder, rows)
            summary += "; without a tokenizer: use the sentencepiece models that it came with"
        else:
            for place, tokenizer in zip(_sides(folder, loaded), (tokenizers.text, tokenizers.target), strict=True):
                write_tokenizer(place, tokenizer, loaded)
            summary, outputs = FORMATS[kind](loaded, folder, rows)
            _check_words(loaded, folder, texts, rows, outputs)
        write_readme(folder, kind, loaded, out.name, texts[:1], longest(loaded, 256))
    return summary


def import_folder(path: Path, out: Path) -> str:
    """Bring what a foreign folder holds into one of Regard's, and tell what that is."""
    loaded = read_folder(path)
    model, words = loaded.model, loaded.words.target.vocabulary
    count = sum(p.numel() for p in model.parameters())
    new_place(out)
    with new_folder(out) as folder:
        save_tokenizers(folder, loaded.words)
        save_model(folder, model, loaded.task, loaded.search, loaded.max_length, {})
        write_readme(folder, "import", loaded, f"{out.name}, brought to Regard from {path.name}", ["a text"])
    return f"{model.config.kind} for {loaded.task}, {count:,} parameters, {words:,} words; the model is in {out}"


def new_place(out: Path) -> None:
    """Raise where something is already."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out}: is there already; name a new folder")
    if out.is_dir():
        out.rmdir()


def _native(loaded: Loaded, folder: Path, rows: Rows, precision: str) -> str:
    """For the native engine, which runs it without torch; texts are decoded by both engines."""
    if precision not in PRECISIONS:
        raise UserError(f"`precision` {precision}: there is no such; choose {' or '.join(PRECISIONS)}")
    write_prepared(folder / NATIVE, prepared_of(loaded.model, small=precision == "int8"))
    save_tokenizers(folder, loaded.words)
    save_settings(folder, loaded.config, loaded.task, loaded.search, loaded.max_length, {})
    before, seconds = _timed(TorchEngine(loaded.model), loaded, rows)
    after, fewer = _timed(NativeEngine(load_folder(folder).native()), loaded, rows)
    same = sum(a.tokens == b.tokens for a, b in zip(before, after, strict=True))
    summary = f"{precision}: {same} of {len(rows)} outputs are the same"
    if loaded.spec.form == "source":
        likely = []
        for outputs in (before, after):
            targets = [h.tokens[:-1] if h.tokens[-1] == loaded.config.end else h.tokens for h in outputs]
            likely.append(float(log_probs(loaded.model, rows, targets).sum() / sum(len(h.tokens) for h in outputs)))
        summary += "; log-probability a token, by the model as it was, {:.4f} before, {:.4f} now".format(*likely)
    return f"{summary}, {seconds / fewer:.1f} times as fast as torch"


def _timed(engine: Engine, loaded: Loaded, rows: Rows) -> tuple[list[Hypothesis], float]:
    engine.decode(rows[:1], loaded.search)
    began = time.perf_counter()
    outputs = [best[0] for best in engine.decode(rows, loaded.search)]
    return outputs, time.perf_counter() - began


def _huggingface(loaded: Loaded, folder: Path, rows: Rows) -> Checked:
    if loaded.spec.form == "example":
        return write_reader(loaded, folder, rows), []
    model, kind = loaded.model, kind_of(loaded.config)
    write_folder(folder, model, kind)
    hf = installed("transformers")
    if loaded.spec.form == "text":
        theirs = hf.AutoModel.from_pretrained(folder).eval()
        vectors = ((model(Padded.of([row])), theirs(torch.tensor([row])).last_hidden_state) for row in rows)
        return f"{kind}, {compare_numbers(vectors, 'vectors of')}", []
    goes_on = loaded.spec.form == "prompt"
    start, end = (mark if mark >= 0 else None for mark in (model.start, model.end))
    marks = {"pad_token_id": end, "eos_token_id": end, "bos_token_id": start}
    marks |= {} if goes_on else {"pad_token_id": start, "decoder_start_token_id": start}
    marks |= {"bad_words_ids": [[i] for i in loaded.search.never]} if loaded.search.never else {}
    write(folder / GENERATION, json.dumps(marks).encode())
    theirs = (hf.AutoModelForCausalLM if goes_on else hf.AutoModelForSeq2SeqLM).from_pretrained(folder).eval()
    greedy, outputs = {"do_sample": False, "num_beams": 1, "max_new_tokens": longest(loaded)}, []
    for row in rows:
        batch = {"input_ids": torch.tensor([row]), "attention_mask": torch.ones(1, len(row))}
        outputs.append(theirs.generate(**batch, **greedy)[0, len(row) if goes_on else 1 :].tolist())
    summary, texts = _compare(loaded, rows, outputs, f"transformers {hf.__version__}")
    return f"{kind}, {summary}", texts


def _ctranslate2(loaded: Loaded, folder: Path, rows: Rows) -> Checked:
    source, target = map(token_names, _sides(folder, loaded), (loaded.words.text, loaded.words.target))
    unknown = next(name for name in ("<unk>", "[UNK]", SHOWN_UNKNOWN, target[UNKNOWN]) if name in target)
    write_ctranslate2(folder, _silenced(loaded), source, target, unknown)
    outputs = decode_ctranslate2(folder, [[source[i] for i in row] for row in rows], longest(loaded))
    numbers = {name: i for i, name in enumerate(target)}
    ids = [[numbers[name] for name in row] for row in outputs]
    return _compare(loaded, rows, ids, f"CTranslate2 {installed('ctranslate2').__version__}")


def token_names(folder: Path, tokenizer: Tokenizer) -> list[str]:
    """Of all ids, as the exported tokenizer has them; one that has none gets its number."""
    content, path = tokenizer.content(), folder / "tokenizer.json"
    numbers = Library.from_file(str(path)).get_vocab() if path.exists() else dict(content["words"])
    numbers |= {name: int(i) for i, name in content.get("controls", {}).items()}
    known = {i: name for name, i in numbers.items()}
    return [known.get(i, f"<{i}>") for i in range(tokenizer.vocabulary)]


def _onnx(loaded: Loaded, folder: Path, rows: Rows) -> Checked:
    write_onnx(folder, _silenced(loaded))
    outputs = OnnxModel(folder).greedy(rows, longest(loaded))
    return _compare(loaded, rows, outputs, f"onnxruntime {installed('onnxruntime').__version__}")


def _silenced(loaded: Loaded) -> Any:
    """The model, with a bias against what it must not say, for tools that are not told so."""
    model = copy.deepcopy(loaded.model)
    if loaded.search.never:
        if model.head.bias is None:
            raise UserError(f"tokens {loaded.search.never} must not be said, and the model has no bias to forbid them")
        model.head.bias.data[list(loaded.search.never)] = NEVER
    return model


def _sides(folder: Path, loaded: Loaded) -> list[Path]:
    """The folders of source and target tokenizer, which may be one."""
    return [folder] * 2 if loaded.words.text is loaded.words.target else [folder / "source", folder / "target"]


def _check_words(loaded: Loaded, folder: Path, texts: list[str], rows: Rows, outputs: Rows) -> None:
    """From text to pieces and from ids to text by the files alone, as users of either library go."""
    folders, target, hf = _sides(folder, loaded), loaded.words.target, installed("transformers")
    running = loaded.spec.form == "prompt" and not isinstance(target, ForeignTokenizer)
    # An unknown is nothing that sub-words can mean, and nothing there.
    meant = [[i for i in ids if i != UNKNOWN or target.kind not in ("bpe", "unigram")] for ids in outputs]
    names = token_names(folders[0], loaded.words.text)
    ours = [[names[i] for i in row] for row in rows], [target.decode(ids, spaced=not running) for ids in meant]
    reads, writes = (Library.from_file(str(folder / "tokenizer.json")) for folder in folders)
    theirs = {"tokenizers": ([each.tokens for each in reads.encode_batch(texts)], writes.decode_batch(outputs))}
    reads, writes = (hf.AutoTokenizer.from_pretrained(folder) for folder in folders)
    pieces = [reads.convert_ids_to_tokens(reads(text)["input_ids"]) for text in texts]
    theirs["transformers"] = pieces, [writes.decode(ids, skip_special_tokens=True) for ids in outputs]
    for tool, both in theirs.items():
        for mine, other in zip(chain(*ours), chain(*both), strict=True):
            if mine != other:
                raise UserError(f"{tool} has {other!r:.200} where Regard has {mine!r:.200}; not exported")


def read_texts(loaded: Loaded, texts: Sequence[str]) -> tuple[list[str], Rows]:
    """Texts that leave room to write, or a few of words at random, as users write them and as the model reads them."""
    source, model, spaced = loaded.words.text, loaded.model, loaded.spec.form != "prompt"
    if not texts:
        draw = Key(0, ("export",)).generator()
        low, high = min(8, source.vocabulary - 1), source.vocabulary
        drawn = [draw.integers(low, high, size=int(draw.integers(3, 12))).tolist() for _ in range(AT_RANDOM)]
        texts = [" ".join(source.decode(row).replace("\ufffd", "").split()) or "a" for row in drawn]
    room = max(1, (loaded.max_length - 2) // (1 if spaced else 2)) if _bounded(model) else None
    whole = [text.lstrip() if source.tags else text for text in texts]
    for n, text in enumerate(whole):
        while room is not None and len(ids := source.encode([whole[n]], spaced=spaced)[0]) > room:
            whole[n] = text[: len(whole[n]) * room // len(ids)]
    rows = source.encode(whole, spaced=spaced)
    if not spaced:
        return whole, [source.prompt(row, model.start) for row in rows]
    if loaded.spec.form != "source":
        return whole, [[model.start, *row, model.end] for row in rows]
    tags = [(f"<2{tag}> ", [source.tag_id(tag)]) for tag in source.tags] or [("", [])]
    tagged = [(name + text, source.framed([*i, *row])) for (name, i), text, row in zip(cycle(tags), whole, rows)]
    return [text for text, _ in tagged], [row for _, row in tagged]


def _bounded(model: Any) -> bool:
    """Whether there is an end to its positions, or to what it looks back on."""
    config = getattr(model.config, "trunk", model.config)
    position = getattr(config, "position", None)
    return getattr(config, "context", None) is not None or getattr(position, "max_length", None) is not None


def longest(loaded: Loaded, most: int = LONGEST) -> int:
    """Tokens of an output at most, within what its positions allow."""
    return max(1, min(most, loaded.max_length // 2 - 1)) if _bounded(loaded.model) else most


def _compare(loaded: Loaded, rows: Rows, outputs: Rows, where: str) -> Checked:
    """Greedy tokens, one by one; and these, of models that go on with a text after their prompts."""
    model = loaded.model
    search = Greedy(max_length=longest(loaded), never=loaded.search.never)
    ours = [best[0].tokens for best in TorchEngine(model).decode(rows, search)]
    theirs = [ids[: ids.index(model.end) + 1] if model.end in ids else ids for ids in outputs]
    odd = [number for number, (a, b) in enumerate(zip(ours, theirs, strict=True), 1) if a != b]
    if odd:
        raise UserError(f"{where} decodes {len(odd)} of {len(rows)} texts otherwise (first {odd[0]}); not exported")
    whole = [[*row, *ids] for row, ids in zip(rows, ours, strict=True)] if loaded.spec.form == "prompt" else ours
    return f"checked: {len(rows)} of {len(rows)} texts decode to the same tokens here and in {where}", whole


def write_readme(folder: Path, kind: str, loaded: Loaded, name: str, texts: list[str], longest: int = 0) -> None:
    """What a folder is, and the lines that run it by its files alone: of usage.md the parts of this format and task."""
    usage = files(__package__).joinpath("usage.md").read_text("utf-8")
    page, *parts = re.split(r"^# ([a-z][\w ]*)\n", usage, flags=re.MULTILINE)
    sections, source = dict(zip(parts[::2], parts[1::2], strict=True)), loaded.words.text
    sides = {side: "" if source is loaded.words.target else f"{side}/" for side in ("source", "target")}
    values = {"name": name, "model": loaded.config.kind, "task": loaded.task, "version": __version__, **sides}
    values |= {"texts": json.dumps(texts, ensure_ascii=False), "longest": str(longest)}
    values["pooled"] = "states[0]" if getattr(loaded.config, "pooling", "") == "first" else "states.mean(0)"
    values["tags"] = ", ".join(f"`<2{tag}>`" for tag in source.tags)
    asked = f"{kind} {loaded.task}" if f"{kind} {loaded.task}" in sections else "native code"
    more = {"tags": source.tags and loaded.spec.form == "source", "without a tokenizer": "words" in source.content()}
    notes = sections[kind] + "".join(sections[name] for name, is_so in more.items() if is_so and asked != "native code")
    code, notes = (Template(text).substitute(values).strip() for text in (sections[asked], notes))
    write(folder / "README.md", Template(page).substitute(values, code=code, notes=notes).encode())


Write = Callable[[Loaded, Path, Rows], Checked]
FORMATS: dict[str, Write] = {"huggingface": _huggingface, "ctranslate2": _ctranslate2, "onnx": _onnx}

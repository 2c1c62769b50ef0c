"""Hostile recipes, settings, model files and bytes, through every command that reads them: each works or is refused.

    python -m bench.hostile [--settings N] [--files N] [--blobs N] [--seed N] [--jobs N]      (20 minutes)

By default 2,000 recipes and config.json with numbers, sizes and types that nobody should write; 500 model files with
changed bytes, headers, tokenizers or settings (Regard's, Hugging Face's, llama2.c's); and 300 blobs, pipes,
devices and sparse giants in the place of a file. Each runs in a process of its own, forked from one that has imported
everything. Exit status 1 if there was a traceback, a hang (5 s of processor time, or 30 s in all), an abort, or an exit
code other than 0, 1 and 2.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from tests.fixtures.make import DATA, LINES, MODELS, RUNS

PATIENCE, WAIT = 5, 30  # seconds of processor time, and of waiting, as others may be at work on this machine
ROOM = 16 << 30  # bytes of address space of a case
BIG = (10**6, 10**9, 2**31, 2**63, 10**30, 10**300, 10**4500, -1, -(10**9), 0, 2, 7)
ODD: tuple[Any, ...] = (float("nan"), float("inf"), -float("inf"), 1e300, 1e-300, -1e300, -0.0, 0.5, 1e9, 3.7)
TYPES: tuple[Any, ...] = (
    "a",
    "",
    "1:1:1:1",
    "1e3",
    "\0",
    "\ud800",
    "x" * 5000,
    "../..",
    True,
    None,
    [],
    {},
    ["a"],
    {"a": 1},
)
TYPES += ([1] * 2000, [[[[1]]]], {"type": "Sequence"}, "nan", "\u202e", [None], "9" * 5000)
HOSTILE = (*BIG, *ODD, *TYPES)
CHAIN = {
    "type": "Sequence",
    "normalizers": [{"type": "Replace", "pattern": {"String": "a"}, "content": "aaaaaaaaaa"}] * 40,
}
PARTS: tuple[Any, ...] = (
    CHAIN,
    {"type": "Sequence", "normalizers": [{"type": "NFKD"}] * 100_000},
    {"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": ""},
    {"type": "Replace", "pattern": {"String": ""}, "content": "▁"},
    {"type": "Precompiled", "precompiled_charsmap": "AAQAAAAA"},
    {"type": "Prepend", "prepend": "a" * 10**6},
    {"type": "Split", "pattern": {"Regex": "(.*)*x"}, "behavior": "Isolated", "invert": False},
    {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x", "type_id": 0}}] * 1000, "pair": []},
    {"type": "Unigram", "unk_id": 10**6, "vocab": [["", 0.0], ["a", 1e308]]},
    {"type": "Unigram", "unk_id": None, "vocab": []},
    {"type": "WordPiece", "vocab": {"a": 0}, "unk_token": "b", "continuing_subword_prefix": "#" * 10**6},
    {"type": "WordPiece", "vocab": {"a": 0}, "unk_token": "b", "max_input_chars_per_word": 2**60},
    {"type": "BPE", "vocab": {"a": 2**32 - 1}, "merges": [["a", "b"]]},
    {"type": "WordLevel", "vocab": {}, "unk_token": "?"},
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    name: str
    make: Callable[[Path], list[str]]
    """Fills a folder, and says what `regard` is called with."""
    stdin: bytes = LINES.encode()


def places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something stands in a tree of dictionaries and lists; of long ones only the beginning."""
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [path, *(p for key, value in list(inner)[:30] for p in places(value, (*path, key)))]


def changed(tree: Any, draw: random.Random, values: tuple[Any, ...], times: int = 1) -> tuple[Any, str]:
    """A copy with other values, dropped keys or keys that nobody knows, and which."""
    tree, told = json.loads(json.dumps(tree)), []
    for _ in range(times):
        place = draw.choice(places(tree)[1:] or [()])
        if not place:
            break
        inner = tree
        for key in place[:-1]:
            inner = inner[key]
        what, value = draw.choice(("set", "set", "set", "set", "drop", "add")), deepcopy(draw.choice(values))
        if what == "add" and isinstance(inner, dict):
            inner[f"{place[-1]}x" * draw.choice((1, 1, 2000))] = value
        elif what == "drop" and isinstance(inner, dict):
            del inner[place[-1]]
        else:
            inner[place[-1]] = value
        shown = "huge" if isinstance(value, int) and value > 10**300 else ascii(value)[:40]
        told.append(f"{what} {ascii(place)[:80]} {shown}")
    return tree, "; ".join(told)


def written(tree: Any) -> bytes:
    sys.set_int_max_str_digits(0)
    text = json.dumps(tree)
    sys.set_int_max_str_digits(4300)
    return text.encode("utf-8", "surrogatepass")


def recipe_case(draw: random.Random) -> Case:
    name = draw.choice([path.name for path in sorted(MODELS.iterdir()) if (path / "recipe.yaml").exists()])
    tree = yaml.safe_load((MODELS / name / "recipe.yaml").read_bytes())
    tree = json.loads(json.dumps(tree).replace('"data/', f'"{DATA}/'))
    tree, told = changed(tree, draw, HOSTILE, draw.choice((1, 1, 1, 2, 4)))
    command = draw.choice(("train", "train", "train", "check"))

    def make(folder: Path) -> list[str]:
        (folder / "r.yaml").write_bytes(written(tree))  # JSON is YAML
        return [command, "r.yaml", *(["--out", "out"] if command == "train" else [])]

    return Case(f"recipe {name}, {command}: {told}", make)


def commands(draw: random.Random, name: str) -> list[str]:
    """For a model in `model`."""
    arguments = next(iter(RUNS.get(name, [([], "")])))[0]
    run = ["run", "model", *arguments, *([] if "--max-tokens" in arguments else ["--max-tokens", "8"])]
    known = [run, run, run, ["run", "model", "--engine", "torch", "--max-tokens", "8"]]
    known.append(["attend", "model", RUNS.get(name, [([], LINES)])[0][1].splitlines()[0], "-o", "a.json"])
    if name in ("lstm", "rnn", "transformer", "hf-marian"):
        known.append(["evaluate", "model", "--source", f"{DATA}/pairs.src", "--target", f"{DATA}/pairs.tgt", "--score"])
    elif name in ("gpt", "lstm-lm", "hf-llama", "hf-gpt2"):
        known.append(["evaluate", "model", "--text", str(DATA / "text.txt")])
    if name.startswith("hf-"):
        known.append(["import", "model", "out"])
    if name in ("gpt", "transformer", "hf-llama", "hf-gpt2", "hf-marian", "native-int8", "native-gpt-int8"):
        known.append(["run", "model", "--engine", "native", "--max-tokens", "8"])
    if name in ("gpt", "transformer"):  # others never end a text, and take seconds to compare
        known.append(["export", "model", "out", "--to", "native", "--texts", "stdin"])
    return draw.choice(known)


def copied(name: str, folder: Path) -> Path:
    shutil.copytree(BASES[name], folder / "model")
    return folder / "model"


def config_case(draw: random.Random) -> Case:
    name = draw.choice(list(BASES))
    tree = json.loads((BASES[name] / "config.json").read_bytes())
    tree, told = changed(tree, draw, HOSTILE, draw.choice((1, 1, 1, 2, 4)))
    command = commands(draw, name)

    def make(folder: Path) -> list[str]:
        (copied(name, folder) / "config.json").write_bytes(written(tree))
        return command

    return Case(f"config {name}, {command[0]}: {told}", make, stdin_of(name))


def stdin_of(name: str) -> bytes:
    return next(iter(RUNS.get(name, [([], LINES)])))[1].encode()


def header_changed(data: bytes, draw: random.Random) -> bytes:
    """A safetensors file whose header lies."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    kinds = ("F8_E4M3", "F8_E5M2", "F8_E8M0", "F4", "I8", "BF16", "F64", "BOOL", "C64", "U64")
    values = ([0, 2**62], [2**62, 0], [0], [], [1], [2**63], [-1], [2**32, 2**32], *kinds, *HOSTILE)
    header, _ = changed(header, draw, values, draw.choice((1, 2)))
    named = draw.choice([name for name in header if name != "__metadata__"] or [""])
    if isinstance(header.get(named), dict) and draw.random() < 0.5:
        part, end = header[named], (header[named].get("data_offsets") or [0, 0])
        if isinstance(end, list) and len(end) == 2 and all(isinstance(i, int) for i in end):
            kind, width = draw.choice((("F8_E4M3", 1), ("F16", 2), ("BF16", 2), ("I64", 8), ("F64", 8), ("U8", 1)))
            part |= {
                "dtype": kind,
                "shape": draw.choice([[(end[1] - end[0]) // width], [1, (end[1] - end[0]) // width]]),
            }
    text = written(header)
    return struct.pack("<Q", len(text)) + text + data[8 + size :]


def bytes_changed(data: bytes, draw: random.Random) -> bytes:
    if draw.random() < 0.2:
        return data[: draw.randrange(len(data) + 1)]
    changed = bytearray(data)
    for _ in range(draw.choice((1, 3, 30))):
        at = draw.randrange(min(len(data), draw.choice((64, 2000, len(data)))) or 1)
        changed[at : at + draw.choice((0, 1, 4))] = draw.choice(
            (b"\xff", b"\0\0\0\0", b"\x7f\xff\xff\xff", b"9", b"[", draw.randbytes(4))
        )
    return bytes(changed)


def file_case(draw: random.Random) -> Case:
    name = draw.choice(list(BASES))
    files = [path for path in sorted(BASES[name].rglob("*")) if path.is_file() and path.stat().st_size < 1 << 22]
    path = draw.choice([*files, *[p for p in files if p.suffix == ".safetensors" or "tokenizer" in p.name] * 3])
    data, told = path.read_bytes(), "bytes"
    if path.suffix == ".safetensors" and draw.random() < 0.7:
        data, told = header_changed(data, draw), "header"
    elif path.suffix == ".json" and draw.random() < 0.8:
        data, told = json_changed(data, draw)
    else:
        data = bytes_changed(data, draw)
    command = commands(draw, name)

    def make(folder: Path) -> list[str]:
        (copied(name, folder) / path.relative_to(BASES[name])).write_bytes(data)
        return command

    return Case(f"file {name}/{path.name}, {command[0]}: {told}", make, stdin_of(name))


def json_changed(data: bytes, draw: random.Random) -> tuple[bytes, str]:
    tree = json.loads(data)
    library = tree.get("tokenizer", tree) if isinstance(tree, dict) else tree
    if isinstance(library, dict) and "model" in library and draw.random() < 0.5:
        part, value = (
            draw.choice(("normalizer", "pre_tokenizer", "decoder", "post_processor", "model")),
            draw.choice(PARTS),
        )
        library[part] = value
        return written(tree), f"{part} {str(value)[:60]}"
    tree, told = changed(tree, draw, HOSTILE, draw.choice((1, 3)))
    return written(tree), told


def blob(draw: random.Random) -> bytes:
    kind = draw.randrange(8)
    if kind == 0:
        return draw.randbytes(draw.choice((0, 1, 8, 100, 10_000)))
    if kind == 1:
        return draw.choice((b"[" * 100_000, b'{"a":' * 50_000, b"- " * 300_000, b"1:" * 300_000 + b"1", b"9" * 900_000))
    if kind == 2:
        return b"{" + b",".join(b'"k%d":1' % i for i in range(40_000)) + b"}"
    if kind == 3:
        return struct.pack("<Q", draw.choice((0, 2, 2**20, 2**62))) + b"{}" + draw.randbytes(50)
    if kind == 4:
        return struct.pack("<7i", *(draw.choice((-1, 0, 1, 8, 2**20, 2**31 - 1)) for _ in range(7))) + draw.randbytes(
            99
        )
    if kind == 5:
        return draw.choice((b"\xef\xbb\xbf", b"\xff\xfe", b"PK\3\4", b"\x80\4\x95", b"")) + draw.randbytes(200)
    if kind == 6:
        return b"\n".join(
            draw.choice((b"a: 1", b"&a [*a]", b"!!python/name:os.system", b"? ", b"- " * 9, b"a: |", b"\t"))
            for _ in range(50)
        )
    return json.dumps(
        {"model_type": draw.choice(("llama", "gpt2", "bert")), "vocab_size": draw.choice((10, 2**62))}
    ).encode()


def put(path: Path, draw: random.Random) -> str:
    """Something in the place of a file, and what."""
    path.unlink(missing_ok=True)
    kind = draw.choice(("pipe", "zero", "sparse", "loop", "folder", *["blob"] * 12))
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "zero":
        path.symlink_to("/dev/zero")
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_bytes(blob(draw))
        if kind == "sparse":
            os.truncate(path, 6 << 30)
    return kind


def blob_case(draw: random.Random) -> Case:
    seed, kind = draw.randrange(1 << 30), draw.choice(("recipe", "model", "model", "model"))
    name, command = draw.choice(list(BASES)), draw.choice((["train", "x.yaml", "--out", "out"], ["check", "x.yaml"]))
    of_model = commands(draw, name)

    def make(folder: Path) -> list[str]:
        own = random.Random(seed)
        if kind == "recipe":
            put(folder / "x.yaml", own)
            return command
        model = copied(name, folder)
        others = (
            "vocab.txt",
            "tokenizer.model",
            "source.spm",
            "generation_config.json",
            "modules.json",
            "reading.json",
        )
        others += ("vocab.json", "merges.txt", "model.safetensors.index.json")
        put(own.choice([*sorted(p for p in model.iterdir() if p.is_file()), *(model / other for other in others)]), own)
        return of_model

    return Case(
        f"blob {kind} {name}, {(of_model if kind == 'model' else command)[0]}, seed {seed}", make, stdin_of(name)
    )


BASES: dict[str, Path] = {path.name: path for path in sorted(MODELS.iterdir())}


def make_foreign(place: Path) -> None:
    """Models in Hugging Face's layout with tokenizers."""
    from regard.exchange.huggingface import write_folder
    from regard.models.build import build
    from regard.models.presets import bert, gpt2, llama, transformer_tiny

    small: dict[str, Any] = {"width": 8, "hidden": 12, "num_heads": 2, "num_layers": 1, "vocabulary": 300}
    made = {
        "llama": replace(llama(), **small, num_kv_heads=1),
        "gpt2": replace(gpt2(), **small),
        "bert": replace(bert(), **small, mask=4),
        "marian": replace(
            transformer_tiny(), width=8, hidden=12, num_heads=2, encoder_layers=1, decoder_layers=1, placement="post",
            tied="all", output_bias=True, source_vocabulary=300, target_vocabulary=300,
            position=replace(transformer_tiny().position, layout="halves"),
        ),
    }  # fmt: skip
    for kind, config in made.items():
        write_folder(place / f"hf-{kind}", build(config), kind)
        (place / f"hf-{kind}" / "tokenizer.json").write_text(json.dumps(library(kind)), "utf-8")
        BASES[f"hf-{kind}"] = place / f"hf-{kind}"


def library(kind: str) -> Any:
    """A small tokenizer as that family has it."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    if kind == "bert":
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyzäöüß"]
        found = Tokenizer(models.WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
        found.normalizer, found.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()  # type: ignore[assignment]
        found.add_special_tokens(words[:5])
    elif kind == "marian":
        found = Tokenizer(
            models.Unigram([("<unk>", 0.0), ("</s>", 0.0), ("▁", -1.0), *((c, -2.0) for c in "abcdeinorstuü")], 0)
        )
        found.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(" ", "▁")])  # type: ignore[assignment]
    else:
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        found = Tokenizer(models.BPE({c: i + 3 for i, c in enumerate(alphabet)}, []))
        found.pre_tokenizer, found.decoder = pre_tokenizers.ByteLevel(False), decoders.ByteLevel()  # type: ignore[assignment]
    return json.loads(found.to_str())


def execute(case: Case, folder: Path) -> None:
    """In the forked process: never returns."""
    resource.setrlimit(resource.RLIMIT_AS, (ROOM, ROOM))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CPU, (PATIENCE, 5 * PATIENCE))
    code = 70
    try:
        arguments = case.make(folder)
        (folder / "stdin").write_bytes(case.stdin)
        for number, name, mode in (
            (0, "stdin", os.O_RDONLY),
            (1, "said", os.O_CREAT | os.O_RDWR),
            (2, "said", os.O_RDWR),
        ):
            os.dup2(os.open(folder / name, mode | (os.O_APPEND if number else 0)), number)
        os.chdir(folder)
        sys.stdin, sys.stdout = os.fdopen(0, "r"), os.fdopen(1, "w")
        sys.stderr = os.fdopen(2, "w", errors="backslashreplace")  # as Python opens it
        if arguments[0] == "export":  # which measures how much faster it has become
            resource.setrlimit(resource.RLIMIT_CPU, (4 * PATIENCE, 4 * PATIENCE + 1))
        faulthandler.dump_traceback_later(0.9 * WAIT)  # where it hangs
        sys.argv = ["regard", *arguments]
        import regard.training.asked as checking
        import regard.training.run as training
        from regard.cli.main import main
        from regard.errors import UserError

        def ready(*_: Any) -> Any:
            raise UserError("the training would begin")

        training.settle = checking.plan_for = ready  # type: ignore[assignment]
        main()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


@dataclass(frozen=True)
class Outcome:
    fault: str
    said: str
    seconds: float
    megabytes: float
    code: int


def tried(case: Case, shared: Path) -> Outcome:
    folder = Path(tempfile.mkdtemp(dir=shared))
    began = time.perf_counter()
    child = os.fork()
    if not child:
        execute(case, folder)
    hung = False
    while True:
        done, status, used = os.wait4(child, os.WNOHANG)
        if done:
            break
        if not hung and time.perf_counter() - began > WAIT:
            hung = True
            os.kill(child, signal.SIGKILL)
        time.sleep(0.002)
    seconds, code = used.ru_utime + used.ru_stime, os.waitstatus_to_exitcode(status)
    said = (folder / "said").read_text("utf-8", "replace") if (folder / "said").exists() else ""
    shutil.rmtree(folder, ignore_errors=True)
    fault = ""
    if hung or code == -signal.SIGXCPU:
        fault = "hang"
    elif code < 0:
        fault = f"abort by signal {-code}"
    elif "Traceback (most recent" in said:
        fault = "traceback"
    elif code not in (0, 1, 2) or len(said) > 1 << 20:
        fault = f"exit code {code}, {len(said):,} characters"
    return Outcome(fault, said, seconds, used.ru_maxrss / 1024, code)


KINDS: dict[str, tuple[Callable[[random.Random], Case], ...]] = {
    "settings": (recipe_case, config_case),
    "files": (file_case,),
    "blobs": (blob_case,),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, count in (("settings", 2000), ("files", 500), ("blobs", 300), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=count)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    os.environ |= {"TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}
    warm = ["run", str(MODELS / "transformer"), "--engine", "native"]  # which compiles the native engine
    subprocess.run(
        [sys.executable, "-c", "from regard.cli.main import main; main()", *warm],
        input=b"rot\n",
        check=True,
        capture_output=True,
    )
    with tempfile.TemporaryDirectory() as place:
        foreign = os.fork()  # so that this process runs nothing of torch, whose threads a fork would lose
        if not foreign:
            make_foreign(Path(place))
            os._exit(0)
        os.waitpid(foreign, 0)
        for path in sorted(Path(place).iterdir()):
            BASES[path.name] = path
        import torch  # noqa: F401

        import regard.cli.attend
        import regard.cli.run
        import regard.exchange.export
        import regard.training.run  # noqa: F401

        faults = Counter[str]()
        for name, makers in KINDS.items():
            outcomes, began = list[Outcome](), time.perf_counter()
            numbers = range(getattr(given, name))
            cases = [makers[n % len(makers)](random.Random(f"{given.seed} {name} {n}")) for n in numbers]
            with ThreadPoolExecutor(given.jobs) as pool:
                for number, outcome in enumerate(pool.map(lambda case: tried(case, Path(place)), cases)):
                    outcomes.append(outcome)
                    if outcome.fault:
                        faults[outcome.fault.split(",")[0]] += 1
                        said = "\n    ".join(outcome.said[-1500:].splitlines()[-7:])
                        print(f"{name} {number}: {outcome.fault}: {cases[number].name}\n    {said}", flush=True)
            if outcomes:
                codes = ", ".join(
                    f"{code}: {many:,}" for code, many in sorted(Counter(o.code for o in outcomes).items())
                )
                slowest, largest = max(o.seconds for o in outcomes), max(o.megabytes for o in outcomes)
                print(f"{name}: {len(outcomes):,} cases in {time.perf_counter() - began:.0f} s, exit codes {codes}; "
                      f"slowest {slowest:.1f} s, most memory {largest:,.0f} MB", flush=True)  # fmt: skip
    counts = {
        what: sum(many for fault, many in faults.items() if fault.startswith(what))
        for what in ("traceback", "hang", "abort", "exit code")
    }
    print("faults: " + ", ".join(f"{what} {many}" for what, many in counts.items()))
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()

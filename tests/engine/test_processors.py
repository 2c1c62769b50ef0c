"""The native engine on another processor: aarch64, under qemu, where both can be had."""

from __future__ import annotations

import ctypes as c
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.engine.test_native import SEARCHES, made, texts, the_same

from regard.engine.build import SOURCES
from regard.engine.native import CJob, NativeEngine
from regard.engine.prepare import prepared_of

CROSS, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64-static"
pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not (shutil.which(CROSS) and shutil.which(EMULATOR)), reason="no cross compiler and qemu here"),
]
NUMBERS = {"source": 4, "prompt": 4, "limits": 8, "norms": 8, "tokens": 4, "lengths": 8, "log_probs": 8, "scores": 8}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("aarch64") / "driver"
    flags = ("-std=c++17", "-O2", "-static", "-pthread", "-Wno-psabi")
    subprocess.run([CROSS, *flags, f"-I{SOURCES}", "-o", path, Path(__file__).with_name("driver.cpp")], check=True)
    return path


class Elsewhere:
    """Stands for the library: writes a job down, has it done by the program, and copies back what came of it."""

    def __init__(self, program: Path) -> None:
        self.program, self.model = program, b""

    def regard_size(self, of: int) -> int:
        printed = subprocess.run([EMULATOR, self.program], check=True, capture_output=True, text=True).stdout
        return int(printed.split()[of])

    def regard_level(self) -> int:
        return 0

    def regard_open(self, settings: Any, tensors: Any, count: int, *_: object) -> int:
        self.model = bytes(settings._obj) + np.int64(count).tobytes()
        for tensor in tensors:
            self.model += bytes(tensor) + c.string_at(tensor.data, tensor.rows * tensor.columns * tensor.bytes)
        return 0

    def regard_close(self, handle: object) -> None:
        pass

    def regard_decode(self, handle: object, reference: Any, level: int, *_: object) -> int:
        job: CJob = reference._obj
        sizes = self._sizes(job)
        places = {name: getattr(CJob, name).offset for name in sizes}
        pointers = {name: getattr(job, name) for name in sizes}
        plain = CJob.from_buffer_copy(job)
        plain.told = type(job.told)()  # nobody is there to be told
        plain.cancelled = None
        parts = [self.model, bytes(plain), np.int64(len(sizes)).tobytes()]
        for name, size in sizes.items():
            parts += [np.array([places[name], size]).tobytes(), c.string_at(pointers[name], size)]
        given, out = self.program.with_name("job"), self.program.with_name("out")
        given.write_bytes(b"".join(parts))
        subprocess.run([EMULATOR, self.program, given, out], check=True)
        data, at = out.read_bytes(), 0
        for name, size in sizes.items():
            c.memmove(pointers[name], data[at : at + size], size)
            at += size
        return 0

    @staticmethod
    def _sizes(job: CJob) -> dict[str, int]:
        counts = {"limits": job.sentences, "norms": job.norm_room, "tokens": job.token_room}
        counts |= dict.fromkeys(("lengths", "log_probs", "scores"), job.output_room)
        sizes = {name: NUMBERS[name] * count for name, count in counts.items()}
        for side in ("source", "prompt"):
            if ends := getattr(job, f"{side}_ends"):
                sizes[f"{side}_ends"] = 8 * job.sentences
                sizes[side] = 4 * int(np.frombuffer(c.string_at(ends, 8 * job.sentences), np.int64)[-1])
        return sizes


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("name", ["alibi, six heads", "alibi"])
def test_aarch64_says_the_same(name: str, small: bool, program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = made(name)
    prepared = prepared_of(model, small=small)
    here = NativeEngine(prepared)
    here.level = 0
    monkeypatch.setattr("regard.engine.native.library", lambda *_: Elsewhere(program))
    there = NativeEngine(prepared, threads=2)
    for search in ("greedy", "beam", "cold"):
        both = [engine.decode(texts(), SEARCHES[search]) for engine in (here, there)]
        if not small:
            the_same(*both)
            continue
        pairs = [(a[0], b[0]) for a, b in zip(*both, strict=True)]  # a sum that is rounded otherwise moves a byte
        assert sum(a.tokens == b.tokens for a, b in pairs) >= 0.9 * len(pairs)
        assert all(abs(a.log_prob - b.log_prob) < 0.1 for a, b in pairs if a.tokens == b.tokens)

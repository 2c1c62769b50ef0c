"""Memory and time of self-attention over long texts by the chunked kernel, of this tree or of another.

    python -m bench.chunked [TREE]

One layer of 8 heads of width 64, one text, forward without gradients and forward with backward, each in a process of
its own with one thread: seconds, and the memory that the process had beyond the layer and its input.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

WORK = """
import json, resource, sys, time
import torch
from regard.attention import Mask, MultiheadAttention
from regard.attention.config import AttentionConfig, PositionConfig
from regard.attention.position import layer_position, steps

torch.set_num_threads(1)
kind, window, length, backward = json.loads(sys.argv[1])
position = layer_position(PositionConfig(kind=kind), 64, 8, 0)
layer = MultiheadAttention(AttentionConfig(width=512, num_heads=8, kernel="chunked"), position)
x = torch.randn(1, length, 512, requires_grad=backward)
mask = Mask.causal() if window is None else Mask.causal() & Mask.window(window)
keep = getattr(layer, "project_kv", None) or layer.memorise  # which was its name
layer(x[:, :64], keep(x[:, :64]), mask=mask)
before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
with torch.set_grad_enabled(backward):
    places = steps(length, length, None, x.device)
    out = layer(x, keep(x, positions=places[1]), mask=mask, places=places)
    if backward:
        out.sum().backward()
seconds = time.perf_counter() - began
print(json.dumps([seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024]))
"""
CASES = {
    "ALiBi, 8,192": ("alibi", None, 8192),
    "Shaw, 8,192": ("shaw", None, 8192),
    "window 512, 8,192": ("none", 512, 8192),
    "window 512, 32,768": ("none", 512, 32768),
}


def main(tree: Path) -> None:
    for name, case in CASES.items():
        for backward in (False, True):
            command = [sys.executable, "-c", WORK, json.dumps([*case, backward])]
            variables = {**os.environ, "PYTHONPATH": str(tree / "src")}
            done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
            what = f"{name:20} {'with backward' if backward else 'forward':14}"
            if done.returncode:
                print(what, "ended with", done.returncode, done.stderr.strip().splitlines()[-1:], flush=True)
                continue
            seconds, memory = json.loads(done.stdout)
            print(f"{what} {seconds:8.2f} s {memory:8,.0f} MB", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))

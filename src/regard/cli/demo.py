"""`regard demo`: from nothing to a translator that is trained, scored and looked at, in a few minutes."""

import os
import sys
import time
from dataclasses import replace
from importlib.resources import as_file, files
from pathlib import Path

from regard import api
from regard.data.made import daily_columns
from regard.files import write
from regard.metrics.alignment import Gold, parse
from regard.metrics.text import bleu, exact_match
from regard.progress import Progress, duration, say
from regard.tasks.folder import load_folder
from regard.tasks.translation.align import Aligned
from regard.tasks.translation.runtime import Translator

APPLE = "I ate an apple"
SAMPLES = 10


def demo(recipe: Path | None, out: Path, minutes: float | None, threads: int | None) -> None:
    """Everything, on the embedded corpus; the recipe names the model."""
    began = time.perf_counter()
    say("The corpus is synthetic: a grammar composes English and German of daily life, and knows which words belong")
    say("together. Tests hold combinations of word and construction that training never saw.")
    with as_file(files("regard.data").joinpath("daily/demo.yaml")) as own:
        api.train(recipe or own, out=out, minutes=minutes, threads=threads)
    trained = time.perf_counter()
    model, (sources, references, _) = Translator(load_folder(out)), daily_columns("test")
    with Progress(len(sources), "translate") as progress:
        outputs = [model.text(found[0]) for found in model.hypotheses(sources, progress.update)]
    aligned, gold = _aligned(model, "valid")
    reading, _ = aligned.best(gold)
    reading.keep(out)
    aligned, gold = _aligned(model, "test")
    rate = aligned.error_rate(gold, reading)
    score, exact = bleu(outputs, references), exact_match(outputs, references)
    print(f"\n{len(sources):,} test sentences (synthetic), each with a new combination of word and construction:")
    print(f"  BLEU {score.value:.1f} ({score.signature})")
    print(f"  {exact.value:.1%} exactly as the reference")
    print(f"  alignment error rate {rate:.3f} ({reading}; chosen on the validation sentences)\n")
    step = len(sources) // SAMPLES
    for i in range(0, step * SAMPLES, step):
        print(f"  {sources[i]}\n  → {outputs[i]}" + ("" if outputs[i] == references[i] else f"\n  ✗ {references[i]}"))
    picture = replace(model.attend(APPLE).picture(reading.site, reading.head), title=f"{APPLE} (synthetic demo)")
    print("\nWhat each German word looked at:\n")
    print(picture.terminal(color=sys.stdout.isatty() and "NO_COLOR" not in os.environ))
    write(out / "apple.svg", picture.svg().encode())
    regard = Path(sys.argv[0]).name if os.environ.get("VIRTUAL_ENV") else sys.argv[0]  # as it can be typed here
    print(f"""The same as a picture: {out}/apple.svg
It took {duration(trained - began)} for corpus and model, {duration(time.perf_counter() - trained)} for tests. Now try:

  echo "I know that my sister bought a new house" | {regard} run {out}
  {regard} attend {out} "The boy cannot find his key" -o key.svg
  {regard} train --source YOUR.txt --target ITS-TRANSLATION.txt --minutes 8""")


def _aligned(model: Translator, split: str) -> tuple[Aligned, list[Gold]]:
    sources, targets, links = daily_columns(split)
    with Progress(len(sources), "align") as progress:
        aligned = Aligned(model, sources, model.spelled(targets), progress.update)
    return aligned, [parse(line, "daily") for line in links]

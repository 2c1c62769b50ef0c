"""`regard demo`: from nothing to a translator that is trained, scored and looked at, in a few minutes."""

from __future__ import annotations

import os
import sys
from importlib.resources import files
from pathlib import Path

from regard import recipe as recipes
from regard.cli.train import launch, say
from regard.data.daily.grammar import Sentence, sentences
from regard.files import write
from regard.look.model import Model
from regard.metrics.alignment import Gold
from regard.metrics.text import bleu, exact_match
from regard.progress import Progress
from regard.tasks.align import Aligned
from regard.train.config import Recipe

APPLE = "I ate an apple"
SAMPLES = 10


def demo(out: Path, minutes: float | None, threads: int | None) -> None:
    say("The demo corpus is synthetic: English and German of daily life, composed by a grammar that also knows which")
    say("words belong together. What is tested are combinations of word and construction that training never sees.\n")
    text = files("regard.data.daily").joinpath("demo.yaml").read_text("utf-8")
    budget = [] if minutes is None else [f"train.minutes={minutes}", "train.steps=null"]
    launch(recipes.parse(Recipe, text, "demo.yaml", budget), out, threads, None, False, False)
    model, test = Model(out), list(sentences("test"))
    sources, references = [" ".join(s.source) for s in test], [" ".join(s.target) for s in test]
    with Progress(len(test), "translate") as progress:
        outputs = [model.text(found[0]) for found in model.translate(sources, progress.update)]
    valid = list(sentences("valid"))
    reading, _ = _aligned(model, valid).best([_gold(made) for made in valid])
    reading.keep(out)
    rate = _aligned(model, test).error_rate([_gold(made) for made in test], reading)
    score, exact = bleu(outputs, references), exact_match(outputs, references)
    print(f"\n{len(test):,} test sentences, all combinations unseen")
    print(f"  BLEU {score.value:.1f} ({score.signature})")
    print(f"  exactly the reference {exact.value:.1%}")
    print(f"  alignment error rate {rate:.3f} ({reading}; chosen on the validation sentences)\n")
    _show_samples(sources, outputs, references)
    look = model.attend(APPLE)
    picture = look.picture(reading.site, reading.head)
    print(f"{APPLE}: what each German word looked at\n")
    print(picture.terminal(color=sys.stdout.isatty() and "NO_COLOR" not in os.environ))
    write(out / "apple.svg", picture.svg().encode())
    print(f"""The same as a picture: {out}/apple.svg. Now try:

  echo "My sister will buy three red apples tomorrow" | regard run {out}
  regard attend {out} "The boy cannot find his key" -o key.svg
  regard train --source YOUR.txt --target ITS-TRANSLATION.txt --minutes 8""")


def _aligned(model: Model, made: list[Sentence]) -> Aligned:
    with Progress(len(made), "align") as progress:
        outputs = model.spelled([" ".join(s.target) for s in made])
        return Aligned(model, [" ".join(s.source) for s in made], outputs, progress.update)


def _gold(made: Sentence) -> Gold:
    return Gold(made.links, made.links)


def _show_samples(sources: list[str], outputs: list[str], references: list[str]) -> None:
    step = len(sources) // SAMPLES
    for i in range(0, step * SAMPLES, step):
        print(f"  {sources[i]}\n  → {outputs[i]}" + ("" if outputs[i] == references[i] else f"\n  ✗ {references[i]}"))
    print()

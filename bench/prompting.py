"""How well a language model that learned no task tells good reviews from bad ones by examples in its prompt.

    REGARD_DATA=../shared/data python -m bench.prompting MODEL [--shots 0,1,4,8,16] [--seeds 5] [--labels bad,good]

Accuracy of label scoring on the development sentences of GLUE's SST-2 [Wang+ 2019], raw and calibrated, with examples
drawn from its training sentences, as many of each label (an odd one of either), in an order drawn too: the mean over
seeds, and its 95 % interval by Student's t, which tells of the draw of examples, not of the sentences. Beside it the
same model, tuned on the same examples. One thread.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev

import torch
from scipy.stats import t

import regard
from regard.data.examples import Example
from regard.data.text import kept, lines
from regard.exchange import folders
from regard.progress import Progress
from regard.rng import Key
from regard.tasks.labelled.task import Reading, answers
from regard.tasks.lm.prompt import Prompter
from regard.tasks.registry import parse_recipe
from regard.training.run import Run

TASKS = {"SST-2": "glue/SST-2/{}.tsv"}
TUNED = """
task: classification
data: {train: [{file: x.tsv}], max_length: 128}
train: {steps: 40, lr: 5.0e-4, batch_tokens: 512, lm_loss_weight: 0.5}
"""
UPDATES = 40
TEMPLATE = "Review: {input}\nSentiment: {answer}"
Labelled = list[tuple[str, int]]


def read(task: str, split: str) -> Labelled:
    rows = [line.split("\t") for line in lines(kept(TASKS[task].format(split)), strict=True)][1:]
    return [(text.strip(), int(label)) for text, label in rows]


def drawn(examples: Labelled, count: int, seed: int) -> Labelled:
    """As many of each label, in any order."""
    draw = Key(seed, ("shots", count)).generator()
    order = [examples[i] for i in draw.permutation(len(examples))]
    first = int(draw.integers(2))
    of_each = [[each for each in order if each[1] == label] for label in (first, 1 - first)]
    some = [of_each[i % 2][i // 2] for i in range(count)]
    return [some[i] for i in draw.permutation(count)]


def accuracies(prompter: Prompter, labels: Sequence[str], test: Labelled) -> tuple[float, float]:
    """Raw, and calibrated."""
    found = prompter.choose([text for text, _ in test])
    raw = [max(choices, key=lambda choice: choice.log_prob).label for choices in found]
    right = [[labels.index(said) == label for said, (_, label) in zip(told, test, strict=True)]
             for told in (raw, [choices[0].label for choices in found])]  # fmt: skip
    return mean(right[0]), mean(right[1])


def tuned(base: Path, shots: Labelled, test: Labelled, seed: int) -> float:
    """Accuracy of the same model, tuned on the same examples [Radford+ 2018] for a fixed number of updates."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "shots.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in shots), "utf-8")
        settings = f"model.init_from={base}", f"data.train=[{{file: {folder}/shots.tsv}}]", f"train.seed={seed}"
        recipe = parse_recipe(TUNED, "bench", settings)
        run = Run(recipe, folder, folders)
        run.save_tokenizers()
        task, trainer = run.task, run.trainer()
        for step in range(UPDATES):
            trainer.update(trainer.weights, step)
        assert isinstance(task, Reading)
        said = answers(trainer.weights.model, task.layout, [Example((text,), None, 1) for text, _ in test])
    return mean(answer.said == str(label) for answer, (_, label) in zip(said, test, strict=True))


def told(values: Sequence[float]) -> str:
    """A mean and its interval, in percent."""
    if len(values) == 1:
        return f"{100 * values[0]:.1f}"
    half = t.ppf(0.975, len(values) - 1) * stdev(values) / len(values) ** 0.5
    return f"{100 * mean(values):.1f} ± {100 * half:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--task", choices=TASKS, default="SST-2")
    parser.add_argument("--shots", default="0,1,4,8,16", help="examples in the prompt, several counts")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--labels", default="negative,positive", help="what 0 and 1 are called")
    parser.add_argument("--template", default=TEMPLATE)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    model, labels = regard.load(asked.model, threads=1), asked.labels.split(",")
    train, test = read(asked.task, "train"), read(asked.task, "dev")
    runs = [(count, seed) for count in map(int, asked.shots.split(",")) for seed in range(asked.seeds if count else 1)]
    often = max(sum(label == each for _, label in test) for each in (0, 1)) / len(test)
    found: dict[int, list[tuple[float, float, float]]] = {}
    warned: dict[str, None] = {}
    with Progress(len(runs), "prompts") as progress:
        for number, (count, seed) in enumerate(runs, 1):
            shots = [(text, labels[label]) for text, label in drawn(train, count, seed)]
            prompter = Prompter(
                model, shots, asked.template.replace("\\n", "\n"), labels, warn=lambda text: warned.update({text: None})
            )
            trained = tuned(asked.model, drawn(train, count, seed), test, seed) if count > 1 else often
            found.setdefault(count, []).append((*accuracies(prompter, labels, test), trained))
            progress.update(number)
    for text in [*list(warned)[:3], *([f"and {len(warned) - 3} warnings more"] if len(warned) > 3 else [])]:
        print(text, file=sys.stderr)
    print(f"{asked.model}, {asked.task}, {len(test)} sentences, labels {' / '.join(labels)}, accuracy in %\n")
    print("| examples | raw | calibrated | tuned on the same | the more frequent label always | draws |")
    print("|---|---|---|---|---|---|")
    for count, each in found.items():
        raw, calibrated, trained = (told(values) for values in zip(*each, strict=True))
        print(f"| {count} | {raw} | {calibrated} | {trained if count > 1 else '–'} | {100 * often:.1f} | {len(each)} |")


if __name__ == "__main__":
    main()

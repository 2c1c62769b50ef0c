"""`regard`: one binary. Logs and progress go to stderr, results to stdout."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from typer import Argument, Exit, Option, Typer

from regard import __version__, api
from regard.cli.streams import guarded
from regard.decode.config import search_for
from regard.errors import UserError
from regard.progress import say

VERBS = ("translate", "generate", "classify", "embed")  # names of `run` for models of one task
RUN = """Do what a model does, line by line: as many lines out as in, in order.

Translators translate, language models go on with prompts, encoders fill blanks, which are written [MASK], and
classifiers answer. For the options of a model: regard run MODEL --help
"""
EVALUATE = """Score a model on data that it has not seen, or given targets by a model.

For the options of a model: regard evaluate MODEL --help
"""
app = Typer(
    name="regard",
    help="Train, look into, run and evaluate attention models on the machine you have.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # half of the time that help takes
)

Folder = Annotated[Path, Argument(help="A model: Regard's, or in Hugging Face's layout.", show_default=False)]
Json = Annotated[bool, Option("--json", help="One JSON object a line, for programs.")]
Engine = Annotated[str, Option(help="native (compiled once), torch, or auto: native where it can.")]
Threads = Annotated[int | None, Option(help="Processor threads. Default: all.")]
RecipeFile = Annotated[Path | None, Argument(help="A recipe (YAML); or use --source and --target.")]
Source = Annotated[Path | None, Option(help="Text to translate from, a sentence a line.")]
Target = Annotated[Path | None, Option(help="Its translation, line by line.")]
ValidSource = Annotated[Path | None, Option(help="Held-out sentences to validate on. Default: some of --source.")]
ValidTarget = Annotated[Path | None, Option(help="Their translation.")]
Text = Annotated[Path | None, Option(help="Running text instead, for a language model.")]
Minutes = Annotated[float | None, Option(help="Time budget. Default: the recipe's, or what the data are worth.")]
Settings = Annotated[list[str] | None, Option("--set", help="Override, such as train.lr=1e-3.")]


@app.command()
def train(
    recipe: RecipeFile = None,
    source: Source = None,
    target: Target = None,
    valid_source: ValidSource = None,
    valid_target: ValidTarget = None,
    text: Text = None,
    out: Annotated[Path | None, Option(help="Folder of the run. Default: runs/ and the recipe's name.")] = None,
    minutes: Minutes = None,
    setting: Settings = None,
    start: Annotated[Path | None, Option("--from", help="Begin with this model's weights and words.")] = None,
    new_words: Annotated[Path | None, Option(help="With --from: words, one a line, that get tokens.")] = None,
    goes_on: Annotated[bool, Option("--continue", help="Go on in the folder with changed settings.")] = False,
    tensorboard: Annotated[bool, Option("--tensorboard", help="Also log for TensorBoard, in the folder.")] = False,
    processes: Annotated[int | None, Option(help="Processes that share the work. Default: by trial.")] = None,
    threads: Threads = None,
) -> None:
    """Train a model; the same command again goes on where it stopped."""
    from regard.data.text import lines

    new = [] if new_words is None else [line.strip() for line in lines(new_words, strict=True) if line.strip()]
    api.train(
        recipe, source=source, target=target, valid_source=valid_source, valid_target=valid_target, text=text, out=out,
        minutes=minutes, settings=setting or [], start=start, new_words=new, goes_on=goes_on, tensorboard=tensorboard,
        processes=processes, threads=threads,
    )  # fmt: skip


@app.command()
def check(
    recipe: RecipeFile = None,
    source: Source = None,
    target: Target = None,
    valid_source: ValidSource = None,
    valid_target: ValidTarget = None,
    text: Text = None,
    minutes: Minutes = None,
    setting: Settings = None,
    as_json: Json = False,
) -> None:
    """Find problems in the data; tell what training would take.

    Problems come by file and line; time and memory are measured, with the largest batch tried.
    """
    report = api.check(
        recipe, source=source, target=target, valid_source=valid_source, valid_target=valid_target, text=text,
        minutes=minutes, settings=setting or [],
    )  # fmt: skip
    if as_json:
        print(json.dumps({**report.rows, "problems": report.problems}, ensure_ascii=False))
    else:
        print(report.text() or "no problems found")
        print("\n".join(f"{name:15} {value}" for name, value in report.rows.items()))
    if report.fatal:
        raise Exit(2)


@app.command()
def demo(
    recipe: Annotated[Path | None, Argument(help="A recipe for daily/train. Default: a small Transformer.")] = None,
    out: Annotated[Path, Option(help="Folder of the run.")] = Path("runs/demo"),
    minutes: Annotated[float | None, Option(help="Of training, instead of the recipe's.")] = None,
    threads: Threads = None,
) -> None:
    """Train on the embedded corpus, score, and draw attention.

    A few minutes; the corpus is synthetic, English and German of daily life with gold word alignments.
    """
    from regard.cli.demo import demo

    demo(recipe, out, minutes, threads)


@app.command()
def init(task: Annotated[str, Argument(help="translation, lm, mlm, classification and more.")] = "translation") -> None:
    """Print a commented recipe to start from.

    As in: regard init > recipe.yaml
    """
    from regard.tasks.registry import starter

    print(starter(task), end="")


@app.command()
def doctor(as_json: Json = False) -> None:
    """Tell what this machine has, what is missing and how to get it."""
    from regard.cli.doctor import doctor

    doctor(as_json)


@app.command("import")
def import_(
    model: Annotated[Path, Argument(help="In Hugging Face's layout.")],
    out: Annotated[Path, Argument(help="A folder that is not there yet.")],
) -> None:
    """Bring a model of another tool into a folder of Regard's.

    GPT-2, Llama, BERT, Marian, Pegasus and BART, with their tokenizers; nothing in the folder is run.
    """
    from regard.exchange.export import import_folder

    say(import_folder(model, out))


@app.command()
def export(
    model: Folder,
    out: Annotated[Path, Argument(help="A folder that is not there yet.")],
    to: Annotated[str, Option("--to", help="native, huggingface, ctranslate2 or onnx.")],
    texts: Annotated[Path | None, Option(help="Lines to decode both ways. Default: words at random.")] = None,
    precision: Annotated[str, Option(help="Of weights, native: int8, or float32.")] = "int8",
) -> None:
    """Write a model as other tools read it, or for the native engine without torch, and check it there."""
    from regard.cli.run import input_chunks
    from regard.exchange.export import export
    from regard.exchange.folders import load_any

    lines = [] if texts is None else [line for chunk in input_chunks([texts]) for line in chunk if line.strip()]
    if texts is not None and not lines:
        raise UserError(f"{texts}: holds no line to check with; give a file with text, or drop --texts")
    say(export(load_any(model), to, out, lines, precision))
    say(f"written to {out}")


@app.command()
def attend(
    model: Folder,
    text: Annotated[list[str] | None, Argument(help="A sentence to translate, or to go on with.")] = None,
    target: Annotated[str | None, Option(help="Look at this output instead of the model's own.")] = None,
    output: Annotated[Path | None, Option("--output", "-o", help="A .html of everything, .svg, .png or .json.")] = None,
    site: Annotated[str | None, Option(help="Such as decoder.0.cross. Default: the last across.")] = None,
    head: Annotated[int | None, Option(help="One head, from 0. Default: their mean.")] = None,
    pieces: Annotated[bool, Option("--pieces", help="Show the model's own pieces, not words.")] = False,
    beam: Annotated[int | None, Option(min=1, help="Hypotheses kept; 1 is greedy. Default: the model's.")] = None,
    heads: Annotated[Path | None, Option(help="All heads over the lines of a file: what is lost without each.")] = None,
    worst: Annotated[Path | None, Option(help="Of the lines of a file those that were covered worst.")] = None,
    targets: Annotated[Path | None, Option(help="What was said to those lines, if not by the model.")] = None,
    gold: Annotated[Path | None, Option(help="Gold links (0-0 1-2) of those: which heads align best.")] = None,
    count: Annotated[int, Option(min=1, help="How many of the worst.")] = 10,
    as_json: Annotated[bool, Option("--json", help="Tables as JSON, a line for each row.")] = False,
    tag: Annotated[str | None, Option(help="Direction, for models of several.")] = None,
) -> None:
    """Show what a model looked at for each word it said."""
    from regard.cli.attend import attend_file
    from regard.cli.run import opened
    from regard.tasks.translation.align import Reading

    ready = opened(model, **({} if tag is None else {"tag": tag}))
    if beam is not None:
        ready.search = search_for(ready.search, beam=beam, num_best=1, sample=False, max_tokens=None)
    if bool(text) + (heads is not None) + (worst is not None) != 1:
        raise UserError("give a text to look at, or --heads FILE, or --worst FILE")
    if file := heads or worst:
        attend_file(ready, file, targets, gold, count if worst else None, as_json)
        return
    if site is None and head is None:  # the head that aligns best, if that is known
        reading = Reading.of(model)
        site, head = reading.site, reading.head
    look = ready.attend(" ".join(text or ()), target)
    if output is not None:
        look.save(output, site, head, pieces=pieces)
        return
    picture = look.picture(site, head, pieces=pieces)
    print(picture.terminal(color=sys.stdout.isatty() and "NO_COLOR" not in os.environ))


@app.command()
def serve(
    models: Annotated[list[str], Argument(help="Folders of models, or en-de=FOLDER.", show_default=False)],
    host: Annotated[str, Option(help="Who may reach it: 127.0.0.1 is this machine alone.")] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535)] = 5000,
    engine: Engine = "auto",
    threads: Threads = None,
    key_file: Annotated[Path | None, Option(help="Keys, one a line; requests need one. Or REGARD_API_KEYS.")] = None,
) -> None:
    """Serve models over HTTP: a page, LibreTranslate's interface, OpenAI's, and Regard's own."""
    from regard.serve.server import serve_models

    serve_models(models, host=host, port=port, engine=engine, threads=threads, key_file=key_file)


def compare(
    recipes: Annotated[list[Path], Argument(help="Recipes (YAML) for the same data.", show_default=False)],
    seeds: Annotated[int, Option(min=1, help="Runs of each recipe, each of its own seed.")] = 3,
    out: Annotated[Path, Option(help="Folder of the runs, the table and the picture.")] = Path("runs/compare"),
    minutes: Annotated[float | None, Option(help="Time budget of each run. Default: the recipe's.")] = None,
    setting: Settings = None,
    source: Annotated[Path | None, Option(help="Sentences to judge by. Default: validation data.")] = None,
    target: Annotated[Path | None, Option(help="Their references.")] = None,
    data: Annotated[str | None, Option(help="A corpus (multi30k-tok/en-de/test) or file of pairs or examples.")] = None,
    threads: Threads = None,
    as_json: Annotated[bool, Option("--json", help="The table as JSON.")] = False,
) -> None:
    """Train several recipes on the same data; one table, one picture.

    Quality with its interval, parameters, FLOPs, time, speed. The same command again goes on where it stopped.
    """
    table = api.compare(
        recipes, seeds=seeds, out=out, minutes=minutes, settings=setting or [], source=source, target=target,
        data=data, threads=threads,
    )  # fmt: skip
    print(table.json() if as_json else table.markdown().rstrip())


@app.callback(invoke_without_command=True)
def options(
    version: Annotated[bool, Option("--version", help="Show the version.")] = False,
    debug: Annotated[bool, Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    if version:
        print(f"regard {__version__}")
        raise Exit
    if debug:
        os.environ["REGARD_DEBUG"] = "1"


def main() -> None:
    """The program."""
    with guarded():
        program(sys.argv[1:])()


def program(arguments: Sequence[str]) -> Typer:
    """All commands; some have the options of the model that is named."""
    command, *words = [word for word in arguments if not word.startswith("-")] or [""]
    for name, text in {"run": RUN, **dict.fromkeys(VERBS, RUN), "evaluate": EVALUATE}.items():
        made = lambda: None  # noqa: E731
        if name == command:
            from regard.cli import run

            own = "evaluate" if name == "evaluate" else "run"
            made = run.with_options(getattr(run, own), own, run.named_model(words), name)
        app.command(name, help=text, hidden=name in VERBS)(made)
    app.command()(compare)  # after those two in the help
    return app

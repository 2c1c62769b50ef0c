"""The rules of the house: who may import whom, what stays free of torch, how long things get, what is never called."""

import ast
import re
import subprocess
import sys
import typing
from pathlib import Path

import pytest
from bench.mutations import FAULTS

from regard.data.config import INPUTS, VectorsConfig
from regard.models.config import ModelConfig
from regard.nn.embed import FRONTS
from regard.tasks.registry import TASKS

SOURCE = Path(__file__).parents[1] / "src" / "regard"
FILES = sorted(SOURCE.rglob("*.py"))

LEVELS = {
    0: ("shapes", "recipe", "rng", "errors", "bounds", "files", "progress"),
    1: ("attention", "nn", "data", "decode", "metrics"),
    2: ("models", "engine", "look"),
    3: ("tasks",),
    4: ("training",),
    5: ("exchange", "comparison"),
    6: ("api", "process"),
    7: ("cli", "serve"),
}
LEVEL = {room: level for level, rooms in LEVELS.items() for room in rooms}
SIBLINGS = {  # the first may import the second
    ("nn", "attention"), ("engine", "models"), ("look", "engine"), ("api", "process"), ("cli", "serve"),
    ("recipe", "files"),
}  # fmt: skip
SIBLINGS |= {(room, "errors") for room in LEVELS[0]}
BUDGET, LONGEST = 20_200, 400  # lines of Python in src, and in one file

FORBIDDEN_NAMES = {"eval", "exec", "__import__"}
FORBIDDEN_CALLS = {"torch.load", "torch.save", "yaml.load", "yaml.unsafe_load", "os.system", "numpy.load"}
FORBIDDEN_MODULES = {"pickle", "cloudpickle", "dill", "marshal", "shelve", "joblib"}


def room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(path: Path) -> list[str]:
    """Modules that a file imports, by full name."""
    found = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.append(node.module or "")
    return found


def named(path: Path) -> str:
    return str(path.relative_to(SOURCE))


@pytest.mark.parametrize("path", FILES, ids=named)
def test_imports_point_down(path: Path) -> None:
    here = room(path)
    if here in ("__init__", "__main__"):
        return
    assert here in LEVEL, f"{here} is no room of the house"
    for module in imports(path):
        parts = module.split(".")
        if parts[0] != "regard" or len(parts) == 1 or parts[1] == here:
            continue
        there = parts[1]
        assert LEVEL[there] < LEVEL[here] or (here, there) in SIBLINGS, f"{here} imports {there}"


@pytest.mark.parametrize("path", FILES, ids=named)
def test_files_fit_a_few_screens_and_do_nothing_dangerous(path: Path) -> None:
    text = path.read_text("utf-8")
    assert text.count("\n") <= LONGEST
    for module in imports(path):
        assert module.split(".")[0] not in FORBIDDEN_MODULES
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert called not in FORBIDDEN_NAMES | FORBIDDEN_CALLS, f"line {node.lineno}: {called}"
            assert not any(k.arg == "shell" for k in node.keywords), f"line {node.lineno}: shell="


def test_no_view_guesses_by_the_name_of_a_site() -> None:
    """What a map's rows and columns are is asked of its axes."""
    asking = re.compile(r"""(ends|starts)_?[wW]ith\(["'](cross|self|encoder|decoder)["']\)""")
    scripts = [*FILES, *SOURCE.rglob("*.js")]
    assert [named(path) for path in scripts if asking.search(path.read_text("utf-8"))] == []


TASK_NAMES = {*TASKS}
MODEL_KINDS = {config.__dataclass_fields__["kind"].default: config for config in typing.get_args(ModelConfig)}
ASKED_OF = {config.__name__ for config in MODEL_KINDS.values()} | {spec.recipe.__name__ for spec in TASKS.values()}
ASKED_OF |= {"Translator", "Generator", "Encoder", "Answerer", "Seq2seqConfig", "LabelledRecipe", "TuneConfig"}
ASKED_OF |= {"Translation", "LanguageModelling", "MaskedModelling", "BothWays", "Reading", "RecurrentText"}
ASKED_OF |= {"Transformer", "Recurrent", "Gpt", "Bert", "Elmo", "Reader", "LanguageModel", "Seq2seq", "Writer"}
REFUSING = ("engine", "exchange")  # rooms that say what a format or an engine cannot hold


def questions(path: Path) -> list[int]:
    """Lines that ask which task or which kind of model something is; in some rooms, refusals may."""
    tree, lines, refusals = ast.parse(path.read_text("utf-8")), list[int](), set[ast.AST]()
    for node in ast.walk(tree) if room(path) in REFUSING else ():
        named_so = isinstance(node, ast.FunctionDef) and any(word in node.name for word in ("refus", "unfit"))
        raises = isinstance(node, ast.If) and isinstance(node.body[-1], ast.Raise | ast.Return)
        if named_so or (raises and "UserError" in ast.unparse(node.body[-1])):
            refusals |= {*ast.walk(node)}
    for node in ast.walk(tree):
        if node in refusals:
            continue
        names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        names |= {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
        texts = {n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            asked = node.func.id in ("isinstance", "issubclass") and names & ASKED_OF
            of_attributes = node.func.id in ("hasattr", "getattr")
            if asked or (of_attributes and texts & {"trunk", "advance", "guess", "base", "init_from", "encode"}):
                lines.append(node.lineno)
        elif (
            isinstance(node, ast.Compare) and (texts & (TASK_NAMES | {*MODEL_KINDS}) or names & ASKED_OF)
        ) or isinstance(node, ast.Match):
            lines.append(node.lineno)
        elif isinstance(node, ast.Dict):
            keys = {key.value for key in node.keys if isinstance(key, ast.Constant)}
            keys |= {name.id for key in node.keys if key for name in ast.walk(key) if isinstance(name, ast.Name)}
            keys |= {name.attr for key in node.keys if key for name in ast.walk(key) if isinstance(name, ast.Attribute)}
            lines += [node.lineno] * bool(keys & (TASK_NAMES | ASKED_OF))
    return lines


def test_few_places_ask_which_task_or_model_this_is() -> None:
    asking = {named(path): questions(path) for path in FILES if room(path) != "tasks"}
    asking = {name: lines for name, lines in asking.items() if lines}
    assert sum(map(len, asking.values())) <= 10, asking


def test_the_whole_stays_within_its_budget() -> None:
    total = sum(path.read_text("utf-8").count("\n") for path in FILES)
    assert total <= BUDGET


def test_settings_and_the_package_itself_are_free_of_torch() -> None:
    modules = ["regard", "regard.shapes", "regard.rng", "regard.errors", "regard.attention"]
    modules += [f"regard.{room(path)}.config" for path in FILES if path.name == "config.py"]
    assert len(modules) >= 9
    code = f"import sys; sys.modules['torch'] = None\nimport {', '.join(modules)}"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_faults_of_the_mutation_bench_can_be_made() -> None:
    for name, fault in FAULTS.items():
        assert fault.old in (SOURCE / fault.file).read_text("utf-8"), name


def test_tests_mirror_the_source() -> None:
    tests = Path(__file__).parent
    for path in tests.rglob("test_*.py"):
        parts = path.relative_to(tests).parts
        if len(parts) > 1:
            assert parts[0] in LEVEL or parts[0] in ("contracts", "tools"), path


def test_a_modality_is_named_by_its_input_its_front_and_their_lines_alone() -> None:
    """Whatever takes vectors does not know that it does."""
    own = {"data/config.py", "data/vectors.py", "nn/embed.py"}
    for path in FILES:
        tree = ast.parse(path.read_text("utf-8"))
        imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
        assert not imported & {"Vectors", "VectorsConfig"} or named(path) in own, named(path)
    assert INPUTS.keys() == FRONTS.keys() == {VectorsConfig.kind}

"""Recipes: one YAML file per run, read into frozen dataclasses, with every mistake told by its line.

Only plain YAML: no anchors, no tags, no code. Which dataclass a section is comes from the schema, never from the file.
"""

import difflib
import functools
import json
import re
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import TypeAdapter
from yaml import MappingNode, Node, ScalarNode, SequenceNode

from regard.errors import UserError
from regard.files import read_regular

R = TypeVar("R")
Translate = Callable[[MappingNode], None] | None
MOST_BYTES = 1 << 20
MOST_NODES = 10_000  # keys and values; a second of work
DEEPEST = 20
MOST_SHOWN = 20  # problems
OPTION = "--set "  # begins the name of a value that stands in no file
PROBLEM = object()  # stands for a value whose mistake is already told
MAP, SEQUENCE, STRING, NULL, BOOL, INT, FLOAT = (
    f"tag:yaml.org,2002:{name}" for name in ("map", "seq", "str", "null", "bool", "int", "float")
)
_adapter, _hints = functools.cache(TypeAdapter), functools.cache(typing.get_type_hints)
# YAML 1.1 takes 3e-4 for a text, as it has no point.
EXPONENT = re.compile(r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)[eE][-+]?[0-9]+\Z")
WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text", type(None): "null"}


def read(schema: type[R], path: Path, overrides: Sequence[str] = (), translate: Translate = None) -> R:
    """The recipe in a file, changed by overrides such as "train.lr=3e-4"."""
    data = read_regular(path, MOST_BYTES)
    return parse(schema, data.decode("utf-8-sig", "surrogateescape"), str(path), overrides, translate)


def parse(schema: type[R], text: str, name: str, overrides: Sequence[str] = (), translate: Translate = None) -> R:
    """As `read`, from text; `name` stands for the file in messages. Keys not given are as in the section's default;
    `translate` renames those of former versions."""
    if len(text.encode("utf-8", "surrogatepass")) > MOST_BYTES:
        raise UserError(f"{name}: is larger than 1 MB; a recipe is a page of settings, so keep data in other files")
    problems: list[str] = []
    root = _compose(text, name) or MappingNode(MAP, [], _mark(name))
    if not isinstance(root, MappingNode):
        raise UserError(f"{_where(root)}: a recipe is lines such as 'key: value', not {_shown(root)}; write it so")
    translate = translate or (lambda root: None)
    translate(root)
    for override in overrides:
        try:
            _override(root, override)
        except UserError as error:
            problems.append(str(error))
        translate(root)
    recipe = _Builder(problems).build(schema, root, "", _where(root))
    if problems:
        more = [f"and {len(problems) - MOST_SHOWN} problems more"] if len(problems) > MOST_SHOWN else []
        raise UserError("\n".join(problems[:MOST_SHOWN] + more))
    return typing.cast(R, recipe)


def dump(recipe: Any) -> str:
    """All settings as YAML, which `parse` reads back to an equal recipe."""
    return _yaml(_plain(recipe))


def differences(old: Any, new: Any) -> list[str]:
    """One line for each setting that differs."""
    before, after = dict(_leaves(_plain(old))), dict(_leaves(_plain(new)))
    both = {key: (before.get(key, "unset"), after.get(key, "unset")) for key in [*before, *after]}
    return [f"{key}: {was} -> {now}" for key, (was, now) in both.items() if was != now]


class _Loader(yaml.SafeLoader):
    """Makes nodes of plain YAML; anchors, aliases and tags are refused."""

    def __init__(self, text: str, name: str) -> None:
        super().__init__(text)
        self.name, self.depth, self.nodes = name, 0, 0

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        events: Any = self
        event = events.peek_event()
        for what, said in (("an anchor or alias", event.anchor), ("a tag", getattr(event, "tag", None))):
            if said is not None:
                raise UserError(f"{_where(event)}: {_safe(said)} is {what}; a recipe has none, so write plain values")
        self.depth += 1
        self.nodes += 1
        if self.depth > DEEPEST:
            raise UserError(f"{_where(event)}: is nested deeper than {DEEPEST} levels; no recipe needs so many")
        if self.nodes > MOST_NODES:
            raise UserError(f"{_where(event)}: is past {MOST_NODES:,} keys and values; no recipe needs so many")
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


class _Dumper(yaml.SafeDumper):
    """Quotes what `_Loader` would not take for text, and writes lists of values on one line."""


_Loader.add_implicit_resolver(FLOAT, EXPONENT, list("-+.0123456789"))
_Dumper.add_implicit_resolver(FLOAT, EXPONENT, list("-+.0123456789"))
_Dumper.add_representer(
    list, lambda dumper, x: dumper.represent_sequence(SEQUENCE, x, flow_style=not any(isinstance(i, dict) for i in x))
)
# Other styles lose rare line breaks such as U+0085.
_Dumper.add_representer(str, lambda dumper, x: dumper.represent_scalar(STRING, x, None if x.isprintable() else '"'))


def _compose(text: str, name: str) -> Node | None:
    """The tree of nodes, or None where there is nothing."""
    try:
        return _Loader(text, name).get_single_node()
    except UserError:
        raise
    except yaml.composer.ComposerError as error:
        mark, what = error.problem_mark, "a second document begins here; keep one, without '---' between"
    except yaml.MarkedYAMLError as error:
        remedy = "indent with spaces, not tabs" if "'\\t'" in str(error.problem) else "check indentation and quotes"
        mark, what = error.problem_mark, f"is not YAML ({error.problem or error.context}); {remedy}"
    except yaml.reader.ReaderError as error:
        mark, what = _mark(name, text.count("\n", 0, error.position)), "is not UTF-8 text; save the file as UTF-8"
        if not 0xDC80 <= error.character <= 0xDCFF:  # where `read` leaves bytes that are not UTF-8
            what = f"holds {chr(error.character)!a}, a character that YAML forbids; remove it"
    except (ValueError, OverflowError) as error:
        raise UserError(f"{name}: holds an escape such as \\U that names no character ({error}); remove it") from error
    raise UserError(f"{_where(mark or _mark(name))}: {what}")


def _override(root: MappingNode, override: str) -> None:
    """Put the value of "key.key=value" into the tree, with the sections that it needs."""
    name = f"{OPTION}{_safe(override)}"
    path, _, text = override.partition("=")
    *parents, last = path.split(".")
    value = _compose(text, name)
    if not all([*parents, last]) or value is None:
        raise UserError(f"{name}: sets nothing; write section.key=value, or section.key=null to clear it")
    if isinstance(value, MappingNode):
        raise UserError(f"{name}: gives a section; set its keys one by one")
    section = root
    for parent in parents:
        inner = next((node for key, node in section.value if key.value == parent), None)
        if isinstance(inner, SequenceNode):
            raise UserError(f"{name}: {parent} is a list; set the whole of it, as in {parent}=[...]")
        if not isinstance(inner, MappingNode):
            inner = MappingNode(MAP, [], _mark(name))
            _put(section, ScalarNode("", parent, _mark(name)), inner)
        section = inner
    _put(section, ScalarNode("", last, _mark(name)), value)


def _put(section: MappingNode, key: ScalarNode, value: Node) -> None:
    section.value = [*[pair for pair in section.value if pair[0].value != key.value], (key, value)]


class _Builder:
    """Turns nodes into what the schema says, and gathers the problems on the way."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems

    def build(self, schema: Any, node: Node, path: str, where: str, default: Any = None) -> Any:
        """The value, or PROBLEM."""
        options = _options(schema)
        sections = [option for option in options if is_dataclass(option)]
        lists = [option for option in options if typing.get_origin(option) is tuple]
        if node.tag == NULL and type(None) in options:
            return None
        if sections and (isinstance(node, MappingNode) or node.tag == NULL):  # all of its keys are commented out, say
            return self.section(sections, node, path, where, default)
        if lists and isinstance(node, SequenceNode):
            return self.items(lists[0], node, path, where)
        near = None
        if isinstance(node, ScalarNode):
            try:
                return _adapter(schema).validate_json(json.dumps(_value(node, options)), strict=True)
            except ValueError:
                near = self.near(node.value, [str(choice) for option in options for choice in _choices(option)])
        hint = f"; did you mean {near}?" if near else ""
        return self.problem(where, f"{path or 'the recipe'} is {_shown(node)}, but takes {_words(schema)}{hint}")

    def section(self, schemas: list[Any], node: Node, path: str, where: str, default: Any) -> Any:
        pairs = self.pairs(node, path)
        schema = schemas[0]
        teller = "kind" if path else "task"  # the key that tells which section it is
        kinds = {kind: schema for schema in schemas for kind in _choices(_hints(schema).get(teller))}
        if len(schemas) > 1 and kinds and teller in pairs:
            key, kind = pairs[teller]
            if not isinstance(kind, ScalarNode) or kind.value not in kinds:
                return self.build(Literal.__getitem__(tuple(kinds)), kind, _join(path, teller), _where(key))
            schema = kinds[kind.value]
        known = _settings(schema)
        defaults = default if type(default) is schema else schema  # a dataclass has its defaults as attributes
        values: dict[str, Any] = {name: getattr(defaults, name, MISSING) for name in known}
        meant = set()
        for name, (key, value) in pairs.items():
            if name in known:
                values[name] = self.build(_hints(schema)[name], value, _join(path, name), _where(key), values[name])
            else:
                near = self.near(name, known)
                meant.add(near)
                remedy = f"did you mean {near}?" if near else f"known here: {', '.join(known)}"
                self.problem(_where(key), f"unknown key {_join(path, name)}; {remedy}")
        for name, value in values.items():
            if value is MISSING and name not in meant:
                words = _words(_hints(schema)[name])
                self.problem(where, f"{path or 'the recipe'} needs the key {name}; add it, with {words}")
        if any(value is PROBLEM or value is MISSING for value in values.values()):
            return PROBLEM
        try:
            return schema(**values)
        except UserError as error:
            return self.problem(where, f"{path}: {error}" if path else str(error))

    def pairs(self, node: Node, path: str) -> dict[str, tuple[Node, Node]]:
        """Keys and values by name, each once."""
        pairs: dict[str, tuple[Node, Node]] = {}
        for key, value in node.value if isinstance(node, MappingNode) else ():
            if not isinstance(key, ScalarNode):
                self.problem(_where(key), f"{path or 'the recipe'} has {_shown(key)} as a key; a key is one word")
            elif key.value in pairs:
                first = _where(pairs[key.value][0])
                self.problem(_where(key), f"{_join(path, key.value)} is given twice, first at {first}; keep one")
            else:
                pairs[key.value] = (key, value)
        return pairs

    def items(self, schema: Any, node: SequenceNode, path: str, where: str) -> Any:
        schemas = typing.get_args(schema)
        if schemas[-1:] == (...,):
            schemas = schemas[:1] * len(node.value)
        if len(schemas) != len(node.value):
            return self.problem(where, f"{path} has {len(node.value)} items, but takes {_words(schema)}")
        places = (f"{path}[{i}]" for i in range(len(node.value)))
        values = tuple(map(self.build, schemas, node.value, places, map(_where, node.value)))
        return PROBLEM if PROBLEM in values else values

    def near(self, name: str, known: list[str]) -> str | None:
        """The likeliest of the known names, while anybody will read it."""
        shown = len(self.problems) < MOST_SHOWN
        return next(iter(difflib.get_close_matches(name[:100], known, 1, 0.5)), None) if shown else None

    def problem(self, where: str, message: str) -> object:
        self.problems.append(f"{where}: {_safe(message, 1000)}")
        return PROBLEM


def _value(node: ScalarNode, options: list[Any]) -> Any:
    """What a scalar means: its text where only text is wanted, else as YAML has it."""
    only_text = node.tag != NULL and all(option in (str, type(None)) for option in options)
    only_text |= ":" in node.value  # 1:30 is no number of base 60
    if only_text or node.tag not in (NULL, BOOL, INT, FLOAT) or any(node.value in _choices(each) for each in options):
        return node.value
    try:
        return yaml.constructor.SafeConstructor().construct_object(node)
    except ValueError:  # YAML takes 0b_ for a number, Python does not
        return node.value


def _settings(schema: Any) -> list[str]:
    """The keys of a section: what its dataclass takes, but for what is derived from elsewhere."""
    return [field.name for field in fields(schema) if field.init and not field.metadata.get("derived")]


def _options(schema: Any) -> list[Any]:
    return list(typing.get_args(schema)) if typing.get_origin(schema) in (typing.Union, types.UnionType) else [schema]


def _choices(option: Any) -> tuple[Any, ...]:
    return typing.get_args(option) if typing.get_origin(option) is Literal else ()


def _words(schema: Any) -> str:
    """A type, as said to a user."""
    if len(_options(schema)) > 1:
        return " or ".join(map(_words, _options(schema)))
    if is_dataclass(schema):
        return f"a section of the keys {', '.join(_settings(schema))}"
    if typing.get_origin(schema) is tuple:
        first, *others = typing.get_args(schema)
        return f"a list, each item {_words(first)}" if others == [...] else f"a list of {len(others) + 1} items"
    return " or ".join(map(str, _choices(schema))) or WORDS.get(schema, str(schema))


def _shown(node: Node) -> str:
    """A value, as shown to a user."""
    if not isinstance(node, ScalarNode):
        return "a list" if isinstance(node, SequenceNode) else "a section"
    return f'"{_safe(node.value)}"' if node.style else _safe(node.value) or "empty"


def _mark(name: str, line: int = 0) -> yaml.Mark:
    return yaml.Mark(name, 0, line, 0, None, 0)


def _where(item: Any) -> str:
    """File and line of a node, an event or a mark, or the option that it is from."""
    mark = getattr(item, "start_mark", item)
    return mark.name if mark.name.startswith(OPTION) else f"{mark.name}:{mark.line + 1}"


def _join(path: str, name: str) -> str:
    return f"{path}.{_safe(name)}" if path else _safe(name)


def _safe(text: str, longest: int = 60) -> str:
    """Text from a file, fit for a terminal."""
    text = text if len(text) <= longest else f"{text[: longest - 3]}..."
    return text if text.isprintable() else ascii(text)


def _yaml(x: Any, *, flow: bool = False) -> str:
    return yaml.dump(x, None, _Dumper, sort_keys=False, allow_unicode=True, width=MOST_BYTES, default_flow_style=flow)


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {name: _plain(getattr(value, name)) for name in _settings(type(value))}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _leaves(tree: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Settings by their dotted keys, each as YAML writes it."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from _leaves(value, _join(path, key))
    else:
        yield path, _yaml([tree], flow=True)[1:-2]

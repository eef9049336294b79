"""Metadata of every setting, read from the dataclasses, for ``--help``, completion and ``xling schema``.

The annotation gives a setting's type, default and choices; the field's metadata gives its range
(`xling.core.settings.ranges`); the ``Attributes:`` section of the class's docstring gives its description. The
settings of objectives are read from the source text of their modules, since importing one imports torch.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import re
import types
import typing
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from xling.core.registry import plugin_entry_points
from xling.core.settings import ranges
from xling.core.settings.config import to_dict
from xling.core.settings.ranges import RANGE, OneOf, Range

_ITEM = re.compile(r"([\w, ]+?)(?: \([^)]*\))?:\s+(.*)", re.S)
_KINDS = {"int": "whole number", "float": "number", "bool": "true or false", "str": "text", "Path": "path"}
_Classes = dict[str, ast.ClassDef]
_JSON = {"whole number": "integer", "number": "number", "true or false": "boolean"}


@dataclasses.dataclass(frozen=True)
class Key:
    """Description of one setting for help texts and the JSON Schema.

    Attributes:
        name: dotted name, as on the command line.
        kind: the type of its value, in words.
        meaning: its description, one sentence.
        default: plain value; None if ``required``.
        required: whether the setting must be given.
        choices: the closed list of its values, empty if there is none.
        valid: its range in words, empty if it has none.
        is_open: whether any key may follow its name and a dot.
        limits: its range in terms of JSON Schema.
        range: its range as declared.
    """

    name: str
    kind: str
    meaning: str
    default: Any = None
    required: bool = False
    choices: tuple[str, ...] = ()
    valid: str = ""
    is_open: bool = False
    limits: Mapping[str, float] = dataclasses.field(default_factory=dict)
    range: Range | OneOf | None = None

    def plain(self) -> dict[str, Any]:
        """Return the description as plain values."""
        return dataclasses.asdict(dataclasses.replace(self, range=None)) | {"range": self.valid}


def keys(cls: Any) -> Iterator[Key]:
    """Yield the settings of a configuration dataclass; settings of its parts are named ``PART.NAME``."""
    for _, _, part_keys in groups(cls):
        yield from part_keys


def groups(cls: Any, prefix: str = "") -> Iterator[tuple[str, str, list[Key]]]:
    """Yield the settings of a configuration dataclass and then of each of its parts.

    Yields:
        Dotted name of the part, its description, and its settings.
    """
    hints = get_type_hints(cls)
    about = inspect.cleandoc(cls.__doc__ or "").partition("\n")[0]
    yield prefix.rstrip("."), about, list(_own(cls, prefix))
    for item in dataclasses.fields(cls):
        if dataclasses.is_dataclass(kind := plain_type(hints[item.name])) and item.init:
            yield from groups(kind, f"{prefix}{item.name}.")


def _own(cls: Any, prefix: str) -> Iterator[Key]:
    """Yield the settings of a dataclass without those of its parts."""
    hints, meanings = get_type_hints(cls), sentences(cls)
    for item in dataclasses.fields(cls):
        kind, name = plain_type(hints[item.name]), f"{prefix}{item.name}"
        if item.name.startswith("_") or not item.init:
            continue
        if dataclasses.is_dataclass(kind):
            continue
        default = to_dict(item.default_factory()) if callable(item.default_factory) else to_dict(item.default)
        required = item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING
        yield Key(
            name,
            _in_words(kind),
            meanings.get(item.name, ""),
            None if required else default,
            required,
            tuple(map(str, get_args(kind))) if get_origin(kind) is typing.Literal else (),
            is_open=any(get_origin(each) in (dict, Mapping) for each in (kind, *get_args(hints[item.name]))),
            **_range_facts(item.metadata.get(RANGE)),
        )


def plain_type(kind: Any) -> Any:
    """Remove ``| None`` from a type."""
    if get_origin(kind) in (types.UnionType, typing.Union):
        return next(a for a in get_args(kind) if a is not type(None))
    return kind


def sentences(cls: Any) -> dict[str, str]:
    """Return the description of each attribute in the docstrings of a class and its bases."""
    meanings: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        meanings |= sentences_in(base.__dict__.get("__doc__") or "")
    return meanings


def sentences_in(doc: str) -> dict[str, str]:
    """Parse the items under ``Attributes:`` or ``Args:`` of a docstring; one item may describe several names."""
    meanings: dict[str, str] = {}
    text = inspect.cleandoc(doc) + "\n"
    for section in re.findall(r"^(?:Attributes|Args):\n((?:    .*\n|\n)+)", text, re.M):
        for item in re.split(r"\n(?=    \S)", "\n" + section):
            if item_parts := _ITEM.match(item.strip()):
                meanings |= {
                    name.strip(): " ".join(item_parts[2].split()) for name in item_parts[1].split(",")
                }
    return meanings


@functools.cache
def objectives() -> dict[str, list[Key]]:
    """Return the settings of every objective by its name, each as ``objectives.OBJECTIVE.NAME``."""
    by_objective = {}
    for name, (node, classes) in _objectives().items():
        config = next((c for base in _bases(node, classes) if (c := _config_of(base))), "TaskConfig")
        by_objective[name] = list(_declared(classes[config], classes, f"objectives.{name}."))
    return dict(sorted(by_objective.items()))


def with_decoder() -> frozenset[str]:
    """Return the names of the objectives that need a model with a decoder."""
    return declaring("decoder = True")


@functools.cache
def declaring(what: str) -> frozenset[str]:
    """Return the names of the objectives whose class, or one below it, has an assignment or a method ``what``."""
    bodies = {
        name: [line for base in _bases(node, classes) if base.name != "Objective" for line in base.body]
        for name, (node, classes) in _objectives().items()
    }
    return frozenset(name for name, body in bodies.items() if any(_is(line, what) for line in body))


def _is(line: ast.stmt, what: str) -> bool:
    if isinstance(line, ast.FunctionDef):
        return line.name == what
    return isinstance(line, ast.Assign) and ast.unparse(line) == what


@functools.cache
def _objectives() -> dict[str, tuple[ast.ClassDef, _Classes]]:
    """Return the class of each objective by its name, and the classes that it may be derived from.

    Those of another package are read from the module that its entry point names. One whose bases lie in further modules
    is left out, since what it inherits is not known.
    """
    package = find_spec("xling.objectives")
    folders = map(Path, (package and package.submodule_search_locations) or ())
    ours = _classes(*(path for folder in folders for path in sorted(folder.glob("*.py"))))
    objectives = {name: (node, ours) for node in ours.values() if (name := _name_of(node))}
    for point in plugin_entry_points():
        own = _classes_of(point.module) if point.name.startswith("objective.") else {}
        known = ours | own
        theirs = {name: (node, known) for node in own.values() if (name := _name_of(node))}
        objectives = {n: each for n, each in theirs.items() if _is_whole(each[0], own, known)} | objectives
    return objectives


def _classes(*paths: Path) -> _Classes:
    """Return the classes of modules by name."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in paths]
    return {node.name: node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)}


def _classes_of(module: str) -> _Classes:
    """Return the classes of another package's module, which is not imported, though its packages are."""
    try:
        spec = find_spec(module)
        return _classes(Path(spec.origin)) if spec and spec.origin else {}
    except Exception:  # a package may raise anything; a training that asks for the objective says so
        return {}


def _is_whole(node: ast.ClassDef, own: _Classes, known: _Classes) -> bool:
    """Return whether all that an objective of another package and its settings inherit is known."""
    classes = [*_bases(node, known)]
    settings = [name for each in classes if (name := _config_of(each))]
    classes += [base for name in settings if name in known for base in _bases(known[name], known)]
    inherited = {ast.unparse(base) for each in classes if each.name in own for base in each.bases}
    return {*settings, *inherited} <= known.keys()


def _name_of(node: ast.ClassDef) -> str:
    """Return the name that a class registers as an objective, or ""."""
    return next((name for each in node.decorator_list if (name := _registered(each))), "")


def _registered(decorator: ast.expr) -> str:
    """Return the name in ``@objective("name")``, or ""."""
    match decorator:
        case ast.Call(func=ast.Name(id="objective"), args=[ast.Constant(value=name)]):
            return str(name)
    return ""


def _bases(node: ast.ClassDef, classes: _Classes) -> Iterator[ast.ClassDef]:
    """Yield a class and then its base classes within the package."""
    yield node
    for base in node.bases:
        if isinstance(base, ast.Name) and base.id in classes:
            yield from _bases(classes[base.id], classes)


def _config_of(node: ast.ClassDef) -> str:
    """Return the class that an objective names by ``config = NAME``, or ""."""
    for line in node.body:
        match line:
            case ast.Assign(targets=[ast.Name(id="config")], value=(ast.Name() | ast.Attribute()) as value):
                return ast.unparse(value).rpartition(".")[2]
    return ""


def _declared(node: ast.ClassDef, classes: _Classes, prefix: str) -> Iterator[Key]:
    """Yield the fields declared in the source of a dataclass and of its bases, fields of bases first."""
    fields: dict[str, tuple[str, ast.expr]] = {}
    meanings: dict[str, str] = {}
    for base in reversed(list(_bases(node, classes))):
        meanings |= sentences_in(ast.get_docstring(base) or "")
        for line in base.body:
            if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and line.value:
                fields[line.target.id] = ast.unparse(line.annotation), line.value
    for name, (kind, source) in fields.items():
        if name in ("data", "seed", "source_lang", "target_lang"):  # set by the training run, or by fairseq
            continue
        value, valid = source, None
        match source:
            case ast.Call(func=ast.Name(id="ranged"), args=[value, declared]):
                valid = _range(declared)
        yield Key(
            prefix + name,
            _KINDS.get(kind, kind),
            meanings.get(name, ""),
            _value(value),
            **_range_facts(valid),
        )


def _range(node: ast.expr) -> Range | OneOf:
    """Return the range that the source of a setting declares, by the names of `xling.core.settings.ranges`."""
    match node:
        case ast.Call(func=ast.Name(id=name)):
            settings = {str(word.arg): ast.literal_eval(word.value) for word in node.keywords}
            built = getattr(ranges, name)(*map(ast.literal_eval, node.args), **settings)
        case _:
            built = getattr(ranges, ast.unparse(node))
    assert isinstance(built, Range | OneOf)
    return built


def _range_facts(valid: Range | OneOf | None) -> dict[str, Any]:
    """Return what a `Key` says of a range."""
    if valid is None:
        return {}
    if isinstance(valid, OneOf):
        return {"range": valid, "valid": str(valid), "choices": tuple(valid)}
    return {"range": valid, "valid": str(valid), "limits": _limits(valid)}


def _value(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return ast.unparse(node)


def _in_words(kind: Any) -> str:
    origin, args = get_origin(kind), get_args(kind)
    if origin is tuple:
        return f"list of {_in_words(args[0])}, separated by commas"
    if origin in (dict, Mapping):
        return f"mapping of names to {_in_words(args[1])}"
    if origin is typing.Literal:
        return "one of " + ", ".join(map(str, args))
    return _KINDS.get(getattr(kind, "__name__", ""), str(getattr(kind, "__name__", kind)))


def _limits(valid: Range) -> dict[str, float]:
    names = {"least": "minimum", "most": "maximum", "above": "exclusiveMinimum", "below": "exclusiveMaximum"}
    bounds = {theirs: getattr(valid, ours) for ours, theirs in names.items()}
    return {name: bound for name, bound in bounds.items() if abs(bound) != float("inf")}


def described(key: Key) -> str:
    """Return the help text of a setting: its description, and its range or type."""
    valid = key.valid or key.kind
    return f"{key.meaning.rstrip('.')} ({valid})" if key.meaning else valid


def json_schema(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Build a JSON Schema of the recipes of every stage, for editors: one item of ``anyOf`` per stage.

    Args:
        settings: stage -> its configuration dataclass.
    """
    definitions = {name: _object(keys(cls), name) for name, cls in settings.items()}
    if "pretrain" in definitions:
        definitions["pretrain"]["properties"]["objectives"] = {
            "type": "object",
            "properties": {name: _object(iter(each), name) for name, each in objectives().items()},
        }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "recipes of xling",
        "anyOf": [{"$ref": f"#/$defs/{name}"} for name in definitions],
        "$defs": definitions,
    }


def _object(settings: Iterator[Key], title: str) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "title": title,
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }
    for key in settings:
        *parts, name = key.name.removeprefix(f"objectives.{title}.").split(".")
        inside = functools.reduce(
            lambda place, part: place.setdefault(
                part, {"type": "object", "properties": {}, "additionalProperties": False}
            )["properties"],
            parts,
            schema["properties"],
        )
        inside[name] = _property(key)
    schema["properties"]["scales"] = {"type": "object", "description": "settings by the name of a scale"}
    return schema


def _property(key: Key) -> dict[str, Any]:
    facts: dict[str, Any] = {"description": described(key), **key.limits}
    if not key.required:
        facts["default"] = key.default
    if key.choices:
        return facts | {"enum": list(key.choices)}
    if key.is_open:
        return facts | {"type": "object"}
    if key.kind.startswith("list"):
        return facts | {"type": ["array", "string"]}
    kind = _JSON.get(key.kind, "string")
    return facts | {"type": kind if key.default is not None or key.required else [kind, "null"]}

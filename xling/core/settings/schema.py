"""Metadata of every setting, read from the dataclasses, for ``--help`` and ``xling schema``.

The annotation gives a setting's type, default and choices; the field's metadata gives its range
(`xling.core.settings.values`); the ``Attributes:`` section of the class's docstring gives its description.
"""

import dataclasses
import functools
import inspect
import pkgutil
import re
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, get_args, get_origin, get_type_hints

from xling.core.settings.config import default_of, to_dict
from xling.core.settings.values import RANGE, OneOf, Range

_ITEM = re.compile(r"([\w, ]+?)(?: \([^)]*\))?:\s+(.*)", re.S)
_KINDS = {"int": "whole number", "float": "number", "bool": "true or false", "str": "text", "Path": "path"}
_OF_THE_RUN = ("data", "seed")
"""Settings of objectives that the training sets."""
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

    def plain(self) -> dict[str, Any]:
        """Return the description as plain values."""
        return dataclasses.asdict(self) | {"range": self.valid}


def keys(cls: Any) -> Iterator[Key]:
    """Yield the settings of a configuration dataclass; settings of its parts are named ``PART.NAME``."""
    for _, _, part_keys in groups(cls):
        yield from part_keys


def groups(cls: Any, prefix: str = "", instance: Any = None) -> Iterator[tuple[str, str, list[Key]]]:
    """Yield the settings of a configuration dataclass and then of each of its parts.

    Args:
        instance: as it stands by default in the configuration that it is a part of, where that says so.

    Yields:
        Dotted name of the part, its description, and its settings.
    """
    hints = get_type_hints(cls)
    about = inspect.cleandoc(cls.__doc__ or "").partition("\n")[0]
    yield prefix.rstrip("."), about, list(_own(cls, prefix, instance))
    for item in dataclasses.fields(cls):
        if dataclasses.is_dataclass(kind := plain_type(hints[item.name])) and item.init:
            yield from groups(kind, f"{prefix}{item.name}.", getattr(instance, item.name, default_of(item)))


def _own(cls: Any, prefix: str, instance: Any = None) -> Iterator[Key]:
    """Yield the settings of a dataclass without those of its parts."""
    hints, meanings = get_type_hints(cls), sentences(cls)
    for item in dataclasses.fields(cls):
        kind, name = plain_type(hints[item.name]), f"{prefix}{item.name}"
        if item.name.startswith("_") or not item.init:
            continue
        if dataclasses.is_dataclass(kind):
            continue
        default = to_dict(getattr(instance, item.name, default_of(item)))
        required = item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING
        yield Key(
            name,
            _in_words(kind),
            meanings.get(item.name, ""),
            None if required else default,
            required,
            is_open=any(get_origin(each) in (dict, Mapping) for each in (kind, *get_args(hints[item.name]))),
            **_valid_values(kind, item.metadata.get(RANGE)),
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
    declared = pkgutil.resolve_name("xling.objectives.declared:find_all")()
    return {
        name: [
            key for key in _own(cls, f"objectives.{name}.") if key.name.rpartition(".")[2] not in _OF_THE_RUN
        ]
        for name, cls in declared.items()
    }


def _valid_values(kind: Any, valid: Range | OneOf | None) -> dict[str, Any]:
    """Return what a `Key` says of the values of a type in a range."""
    if valid is None:
        return {"choices": tuple(map(str, get_args(kind)))} if get_origin(kind) is typing.Literal else {}
    if isinstance(valid, OneOf):
        return {"valid": str(valid), "choices": tuple(valid)}
    return {"valid": str(valid), "limits": _limits(valid)}


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

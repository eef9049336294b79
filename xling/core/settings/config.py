"""Configuration: read YAML and ``a.b=c`` overrides into frozen dataclasses.

Scalars are read as text and converted by the dataclass's type, so that a language called ``no`` stays text
and ``1e-4`` becomes a number. A recipe may hold ``scales: {tiny: {...}}``; ``scale=tiny`` lays that over it.
"""

import copy
import dataclasses
import functools
import re
import types
import typing
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import yaml

from xling.core.errors import UserError, unknown
from xling.core.settings.values import check

T = TypeVar("T")
_BOOLS = {"true": True, "false": False}
_OUTPUTS = ("out",)  # an override such as out=~ or out=-rf would create a folder that is hard to name
_DOTTED = re.compile(r"[A-Za-z_][\w.-]*")
_NULLS = {"", "null", "none", "~"}


_MAX_VALUES = 100_000


class WrittenList(list[Any]):
    """A list read from one word in brackets, with that word: a setting of text takes the word (``[a100&ib]``)."""

    def __init__(self, values: list[Any], text: str) -> None:
        super().__init__(values)
        self.text = text


class _Loader(yaml.BaseLoader):
    """YAML loader that reads scalars as text and rejects repeated keys, which YAML would drop silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.value in seen:
                wrong = (
                    f"{key.value!r} is given twice"
                    if isinstance(key, yaml.ScalarNode)
                    else "a key is not text"
                )
                raise yaml.constructor.ConstructorError(None, None, wrong, key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)

    def get_single_node(self) -> yaml.Node | None:
        """Return the document; refuse one that its aliases make endless or huge."""
        node = super().get_single_node()
        if node is not None and _num_values(node, {}) > _MAX_VALUES:
            wrong = f"it holds more than {_MAX_VALUES:,} values with its aliases (*) written out"
            raise yaml.constructor.ConstructorError(None, None, wrong, node.start_mark)
        return node


def _num_values(node: yaml.Node, known: dict[int, int]) -> int:
    """Return how many values a node holds with its aliases written out; a node inside itself has too many."""
    if id(node) not in known:
        known[id(node)] = _MAX_VALUES + 1
        parts = chain.from_iterable(node.value) if isinstance(node, yaml.MappingNode) else node.value
        is_scalar = isinstance(node, yaml.ScalarNode)
        known[id(node)] = 1 if is_scalar else 1 + sum(_num_values(part, known) for part in parts)
    return known[id(node)]


def load(cls: type[T], path: Path | str | None = None, overrides: Iterable[str] = ()) -> T:
    """Read a recipe (or start from the defaults), apply the overrides and build ``cls``.

    Raises:
        UserError: the file is missing or not a YAML mapping, a key is unknown, or a value has the wrong type or is
            out of its range.
    """
    data = read_yaml(Path(path)) if path else {}
    where = str(path) if path else "the command line"
    values = dict(split_override(item) for item in overrides)
    has_own = "scale" in get_type_hints(
        cls
    )  # then it is a setting like any other, and the recipe has no scales
    scale = "" if has_own else values.pop("scale", "")
    data = data if has_own else scaled(data, scale, where)
    for key, text in values.items():
        data = merge(data, nested(key, text))
    try:
        cfg = from_dict(cls, data, where)
        check(cfg)
        return cfg
    except UserError as error:
        raise located(error, Path(path), scale, values) if path else error from None


def refuse_repeated(overrides: Iterable[str]) -> None:
    """Reject a key that is given twice on a command line; one of the two values would be lost silently.

    Raises:
        UserError: a key is repeated; the message names both values.
    """
    values: dict[str, str] = {}
    for key, text in map(split_override, overrides):
        if key in values:
            raise UserError(f"{key}={values[key]} and {key}={text}", "each key once", "leave one of them out")
        values[key] = text
    for key, text in values.items():
        inside = next((each for each in values if each.startswith(f"{key}.")), "")
        if inside and not text.startswith("{"):
            raise UserError(
                f"{key}={text} and {inside}={values[inside]}", "one of them", "leave one of them out"
            )


def located(
    error: UserError, path: Path, scale: str = "", given: Iterable[str] = (), inside: str = ""
) -> UserError:
    """Add the line of the YAML file where a setting stands to an error about that setting.

    Args:
        error: an error that names a setting by its dotted key, after the file name if it has one.
        path: path of the YAML file.
        scale: the scale whose settings override those of the file.
        given: keys set on the command line; they are not in the file.
        inside: dotted key of the section of the file that holds the settings.
    """
    lines = _lines(path)
    text = error.given.removeprefix(f"{path}: ")
    for word in sorted(set(_DOTTED.findall(text)), key=len, reverse=True):
        parts = word.split(".")
        for length in range(len(parts), 0, -1):
            key = ".".join(parts[:length])
            if key in given:
                return UserError(f"the command line: {text}", error.valid, error.fix)
            for name in (f"scales.{scale}.{key}", f"{inside}.{key}".lstrip(".")):
                if name in lines:
                    return UserError(f"{path}:{lines[name]}: {text}", error.valid, error.fix)
    return error


def _lines(path: Path) -> dict[str, int]:
    """Map each dotted key of a YAML file to its line number, from 1."""
    line_of: dict[str, int] = {}

    def walk(node: yaml.Node | None, prefix: str) -> None:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                line_of[f"{prefix}{key.value}"] = key.start_mark.line + 1
                walk(value, f"{prefix}{key.value}.")

    walk(yaml.compose(path.read_text(encoding="utf-8"), Loader=_Loader), "")
    return line_of


def scaled(data: dict[str, Any], scale: str, where: str) -> dict[str, Any]:
    """Return a recipe without its ``scales`` section, with the settings of scale ``scale`` (if any) applied.

    Raises:
        UserError: the scale does not exist, or ``scales`` is not a mapping of names to settings.
    """
    scales = data.pop("scales", {})
    if not isinstance(scales, Mapping) or not all(isinstance(over, Mapping) for over in scales.values()):
        raise UserError(f"{where}: scales={scales!r}", "a mapping of names to settings")
    if scale and not scales:
        raise UserError(f"scale={scale}, but {where} has no scales", "no scale=", "take scale= out")
    if scale and scale not in scales:
        raise unknown("scale", scale, scales)
    return merge(data, scales[scale]) if scale else data


@functools.lru_cache(32)
def _parsed(text: str) -> Any:
    """The document in a text; a recipe is read once for each of its cells and steps, and takes 0.1 s."""
    return yaml.load(text, Loader=_Loader)


def read_yaml(path: Path) -> dict[str, Any]:
    """Read the mapping in a YAML file, every scalar as text."""
    if not path.is_file():
        raise UserError(
            f"no recipe at {path}", fix="give the path of a YAML file; recipes/ holds the named ones"
        )
    try:
        data = copy.deepcopy(_parsed(path.read_text(encoding="utf-8")))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(
            f"{path} is not YAML: {' '.join(str(error).split())}",
            fix="correct the line",
        ) from None
    if not isinstance(data, dict):
        raise UserError(f"{path} holds no settings", "a YAML mapping of keys to values")
    return data


def split_override(item: str) -> tuple[str, str]:
    """Split ``a.b=c`` into ``("a.b", "c")``."""
    key, sign, value = item.partition("=")
    if not sign or not key:
        raise UserError(
            f"cannot read {item!r}",
            "key=value, for example train.lr=1e-4; several values with commas and no blank, for example langs=sw,en",
        )
    return key.strip(), value


def nested(key: str, text: str) -> dict[str, Any]:
    """Turn ``a.b`` and ``c`` into ``{"a": {"b": "c"}}``; a value in brackets or braces is read as YAML."""
    try:
        value: Any = yaml.load(text, Loader=_Loader) if text.startswith(("[", "{")) else text
    except (yaml.YAMLError, RecursionError) as error:
        raise UserError(
            f"{key}={text[:200]} is not YAML: {' '.join(str(error).split())}",
            fix="close its brackets and quotes",
        ) from None
    return nested_value(key, WrittenList(value, text) if isinstance(value, list) else value)


def nested_value(key: str, value: Any) -> dict[str, Any]:
    """Turn ``a.b`` and a value into ``{"a": {"b": value}}``."""
    for part in reversed(key.split(".")):
        value = {part: value}
    return dict(value)


def from_dict(cls: type[T], data: Mapping[str, Any], where: str = "the settings") -> T:
    """Build dataclass ``cls`` from nested mappings of text, converting values to its types."""
    return typing.cast(T, _convert(cls, data, "", where))


def to_dict(cfg: Any) -> Any:
    """Convert a configuration to plain JSON-ready values; ``from_dict`` reads them back."""
    if dataclasses.is_dataclass(cfg):
        return {f.name: to_dict(getattr(cfg, f.name)) for f in dataclasses.fields(cfg)}
    if isinstance(cfg, Mapping):
        return {str(k): to_dict(v) for k, v in cfg.items()}
    if isinstance(cfg, (tuple, list)):
        return [to_dict(v) for v in cfg]
    return str(cfg) if isinstance(cfg, Path) else cfg


def defaults(cls: Any) -> dict[str, Any]:
    """Return the defaults of a configuration and of its nested parts as plain values, without required settings."""
    values_by_name = {}
    for item in dataclasses.fields(cls):
        if item.default is not dataclasses.MISSING:
            values_by_name[item.name] = to_dict(item.default)
        elif item.default_factory is not dataclasses.MISSING:
            values_by_name[item.name] = to_dict(item.default_factory())
    return values_by_name


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Merge ``over`` into a copy of ``base`` recursively; values of ``over`` win."""
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = merge(merged[key], value) if both else value
    return merged


def _convert(kind: Any, value: Any, key: str, where: str) -> Any:
    if kind is Any:
        return value
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return args[1](_convert(args[0], value, key, where))
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return value if isinstance(value, kind) else _build(kind, value, key, where)
    if origin in (types.UnionType, typing.Union):
        if value is None or (isinstance(value, str) and value.lower() in _NULLS and type(None) in args):
            return None
        words = [word for a in args if get_origin(a) is typing.Literal for word in get_args(a)]
        if value in words:
            return value
        fitting = [a for a in args if (get_origin(a) in (dict, Mapping)) == isinstance(value, Mapping)]
        return _convert(next(a for a in (*fitting, *args) if a is not type(None)), value, key, where)
    if origin is typing.Literal:
        match = [a for a in args if str(a) == str(value)]
        if not match:
            raise unknown(f"value for {key}", str(value), map(str, args))
        return match[0]
    if origin is tuple:
        if isinstance(value, str):
            value = [v for v in value.split(",") if v]
        if not isinstance(value, (list, tuple)):
            raise _wrong_type(kind, value, key, where)
        return tuple(_convert(args[0], v, f"{key}[{i}]", where) for i, v in enumerate(value))
    if origin in (dict, Mapping):
        if not isinstance(value, Mapping):
            raise _wrong_type(kind, value, key, where)
        return _convert_mapping(args, value, key, where)
    if kind is bool:
        if str(value).lower() not in _BOOLS:
            raise _wrong_type(kind, value, key, where)
        return _BOOLS[str(value).lower()]
    if kind is str and isinstance(value, WrittenList):
        value = value.text
    if isinstance(value, (Mapping, list)) or value is None:
        raise _wrong_type(kind, value, key, where)
    if kind is int and isinstance(value, (bool, float)):  # int() would round it silently
        raise _wrong_type(kind, value, key, where)
    try:
        is_whole = (
            kind is int and isinstance(value, str) and "e" in value.lower() and float(value).is_integer()
        )
        converted = kind(float(value) if is_whole else value)  # 1e6 is a whole number
    except (ValueError, OverflowError):
        raise _wrong_type(kind, value, key, where) from None
    if converted != converted:  # NaN passes range comparisons
        raise UserError(f"{where}: {key}={value}", "a number")
    if kind is int and not -(2**63) <= converted < 2**63:
        raise UserError(f"{where}: {key}={value}", "a whole number of at most 64 bits")
    if "\0" in str(value):
        raise UserError(f"{where}: {key}={value!r}", "text without NUL bytes")
    if key in _OUTPUTS and str(value).startswith(("~", "-")):
        raise UserError(
            f"{where}: {key}={value}", "a path", f"no shell has replaced ~ in it: write $HOME, or ./{value}"
        )
    return converted


def _convert_mapping(args: tuple[Any, ...], value: Mapping[str, Any], key: str, where: str) -> dict[str, Any]:
    """Convert the names and the values of a mapping; two spellings of one name are an error."""
    converted: dict[str, Any] = {}
    given: dict[str, str] = {}
    for name, each in value.items():
        ours = _convert(args[0], name, key, where) if get_origin(args[0]) is Annotated else name
        if ours in converted:
            raise UserError(
                f"{where}: {key}.{given[ours]} and {key}.{name} mean the same: {ours}",
                "each once",
                f"give both as one: {key}.{ours}=...",
            )
        given[ours] = name
        converted[ours] = _convert(args[1], each, f"{key}.{name}", where)
    return converted


def _wrong_type(kind: Any, value: Any, key: str, where: str) -> UserError:
    return UserError(f"{where}: {key}={value!r}", f"a value of type {getattr(kind, '__name__', kind)}")


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls, include_extras=True)


def _build(cls: type, data: Any, key: str, where: str) -> Any:
    if not isinstance(data, Mapping):
        raise _wrong_type(cls, data, key, where)
    if hasattr(cls, "completed"):  # a setting that others stand for
        data = cls.completed(data)
    hints = _hints(cls)
    names = [f.name for f in dataclasses.fields(cls) if f.init and not f.name.startswith("_")]
    for name in data:
        if name not in names:
            error = unknown("setting", f"{key}.{name}".lstrip("."), [f"{key}.{n}".lstrip(".") for n in names])
            raise UserError(f"{where}: {error.given}", error.valid, error.fix)
    part_defaults = {f.name: default_of(f) for f in dataclasses.fields(cls)}
    values = {
        n: _convert(hints[n], _over_defaults(part_defaults[n], v), f"{key}.{n}".lstrip("."), where)
        for n, v in data.items()
    }
    required = [
        f.name
        for f in dataclasses.fields(cls)
        if f.init and f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    ]
    if missing := [n for n in required if n not in data]:
        raise UserError(
            f"{where}: {', '.join(f'{key}.{n}'.lstrip('.') for n in missing)} not given",
            fix=f"add {' '.join(f'{key}.{n}'.lstrip('.') + '=VALUE' for n in missing)}",
        )
    return cls(**values)


def _over_defaults(part: Any, given: Any) -> Any:
    """Return what is given of a part over its defaults in this configuration, where they are not those of its class."""
    if not dataclasses.is_dataclass(part) or not isinstance(given, Mapping):
        return given
    items = (item for item in dataclasses.fields(part) if item.init)
    own = {item.name: (getattr(part, item.name), default_of(item)) for item in items}
    return {name: value for name, (value, usual) in own.items() if value != usual} | dict(given)


def default_of(item: dataclasses.Field[Any]) -> Any:
    """Return the default of a field, `dataclasses.MISSING` where it has none."""
    return item.default_factory() if callable(item.default_factory) else item.default

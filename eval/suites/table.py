"""The suites of ``table.yaml``."""

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

from xling.core.languages import LANGUAGES
from xling.core.package_tables import load_table
from xling.eval.rows import readers
from xling.eval.rows.suite import SUITES, Layout, Online, Suite, recorded_files

TABLE = Path(str(files("xling.eval.suites") / "table.yaml"))


def suite_of(name: str, entry: Mapping[str, Any]) -> Suite:
    """Return the suite of an entry, with the recorded digests of its files."""
    is_recorded = TABLE.with_name(f"{name}.tsv").is_file()
    recorded = recorded_files(f"xling.eval.suites.{name}") if is_recorded else ()
    values = {"languages": (), **_values(entry)}
    if values["languages"] == ("all",):
        coded = dict.fromkeys(["en", *values["codes"]])
        values["languages"] = tuple(lang for lang in coded if lang != values.get("pivot"))
    return Suite(name=name, files=recorded, **values)


def _values(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the texts of an entry, of a layout, or of the arguments of a reader by their names."""
    return {key: _CONVERTED[key](value) if key in _CONVERTED else value for key, value in entry.items()}


def _words(value: str | dict[str, str]) -> Any:
    """Return the words of a text; a mapping, as of our splits to those of a repository, stays."""
    return tuple(value.split()) if isinstance(value, str) else value


def _codes(spec: str | dict[str, str]) -> dict[str, str]:
    """Return a mapping as it is, or the codes of all languages that a scheme such as ``flores`` names."""
    if not isinstance(spec, str):
        return spec
    return {lang.code: code for lang in LANGUAGES.values() if (code := getattr(lang, spec))}


def _is_true(text: str) -> bool:
    return {"true": True, "false": False}[text]


def _function(spec: str | Mapping[str, Mapping[str, Any]]) -> Any:
    """Return a function of `xling.eval.rows.readers` or of a module beside this one, or what it makes of arguments."""
    if isinstance(spec, str):
        module, _, name = spec.rpartition(":")
        return getattr(import_module(f"xling.eval.suites.{module}") if module else readers, name)
    ((name, arguments),) = spec.items()
    return getattr(readers, name)(**_values(arguments))


_CONVERTED: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("languages", "extra", "splits", "test_sets", "labels", "metrics", "patterns"), _words),
    **dict.fromkeys(("text_a", "text_b", "fields"), _words),
    **dict.fromkeys(("translated_train", "synthetic", "quoted", "iob1", "short_ends", "any_code"), _is_true),
    **dict.fromkeys(("reader", "has_answers", "to_example", "of_language"), _function),
    "codes": _codes,
    "more": int,
    "separator": {"tab": "\t", "blanks": None}.__getitem__,
    "official": lambda layouts: tuple(Layout(**_values(layout)) for layout in layouts),
    "online": lambda source: Online(**_values(source)),
}

for _name, _entry in load_table(__package__, TABLE.name, as_text=True).items():
    SUITES.add(_name, suite_of(_name, _entry))

"""Recipes and overrides into dataclasses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xling.core.commands.runner import STAGES, load
from xling.core.errors import UserError
from xling.core.settings import config, schema


@dataclass(frozen=True)
class Inner:
    lr: float = 5e-4
    updates: int = 10
    fast: bool = False


@dataclass(frozen=True)
class Outer:
    name: str = "x"
    langs: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    shares: dict[str, float] = field(default_factory=dict)
    corpora: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    mode: Literal["sum", "mean"] = "sum"
    limit: int | None = None
    train: Inner = Inner()
    folder: Path = Path("runs")


@dataclass(frozen=True)
class Needed:
    data: str
    seed: int = 1


def recipe(folder: Path, text: str) -> Path:
    path = folder / "recipe.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_defaults() -> None:
    assert config.load(Outer) == Outer()


@dataclass(frozen=True)
class Slow:
    train: Inner = Inner(updates=7)
    other: Inner = field(default_factory=lambda: Inner(lr=0.1))


def test_one_setting_of_a_part_leaves_its_others_as_this_configuration_has_them() -> None:
    """Not as the class of the part has them, which another configuration uses with other defaults."""
    made = config.load(Slow, overrides=["train.fast=true", "other.updates=3"])
    assert made == Slow(Inner(updates=7, fast=True), Inner(lr=0.1, updates=3))
    assert config.load(Slow, overrides=["train.updates=10"]).train.updates == 10
    shown = {key.name: key.default for key in schema.keys(Slow)}
    assert (shown["train.updates"], shown["other.lr"], shown["other.updates"]) == (7, 0.1, 10)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("umt", ["data=x", "out=x", "pairs=en-sw"]),
        ("back-translate", ["checkpoint=x", "text=x", "src=en", "tgt=sw", "out=x"]),
    ],
)
def test_a_setting_of_greedy_search_leaves_it_greedy(command: str, words: list[str]) -> None:
    cfg = config.load(load(STAGES[command].config), overrides=[*words, "search.max_len_b=20"])
    assert (cfg.search.beam, cfg.search.max_len_b) == (1, 20)


def test_scalars_are_converted_by_type(tmp_path: Path) -> None:
    path = recipe(
        tmp_path,
        "name: no\nlangs: [no, on, en]\nsizes: [1, 2]\nshares: {no: 0.5}\ncorpora: {no: a.txt, en: [b, c]}\n"
        "limit: 7\ntrain: {lr: 1e-4, updates: 0010, fast: TRUE}\nfolder: a/b\n",
    )
    assert config.load(Outer, path) == Outer(
        name="no",
        langs=("no", "on", "en"),
        sizes=(1, 2),
        shares={"no": 0.5},
        corpora={"no": ("a.txt",), "en": ("b", "c")},
        limit=7,
        train=Inner(lr=1e-4, updates=10, fast=True),
        folder=Path("a/b"),
    )


def test_overrides_lie_over_the_recipe(tmp_path: Path) -> None:
    path = recipe(tmp_path, "name: a\ntrain: {lr: 1e-4, updates: 3}\nshares: {en: 0.1}\n")
    made = config.load(
        Outer, path, ["train.lr=2e-5", "langs=no,en", "shares.sw=.2", "limit=none", "name=k=v"]
    )
    assert made == Outer(
        name="k=v", langs=("no", "en"), shares={"en": 0.1, "sw": 0.2}, train=Inner(lr=2e-5, updates=3)
    )


def test_override_in_brackets_is_yaml() -> None:
    made = config.load(Outer, overrides=["langs=[a, 'b,c']", "corpora={en: [x, y]}"])
    assert made.langs == ("a", "b,c") and made.corpora == {"en": ("x", "y")}


def test_scale_lies_between_recipe_and_overrides(tmp_path: Path) -> None:
    path = recipe(
        tmp_path,
        "name: a\ntrain: {lr: 1, updates: 3}\nscales: {big: {train: {lr: 2, updates: 9}}, small: {}}\n",
    )
    assert config.load(Outer, path).train == Inner(lr=1, updates=3)
    assert config.load(Outer, path, ["scale=big", "train.updates=8"]).train == Inner(lr=2, updates=8)
    with pytest.raises(UserError, match=r"unknown scale 'bigg'.*did you mean 'big'"):
        config.load(Outer, path, ["scale=bigg"])


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["nam=x"], r"unknown setting 'nam'.*did you mean 'name'"),
        (["train.updatse=3"], r"unknown setting 'train.updatse'.*did you mean 'train.updates'"),
        (["train.updates=many"], r"train.updates='many'; valid: a value of type int"),
        (["train.updates=1.5e0"], r"train.updates='1.5e0'"),
        (["train.updates=3.5"], r"train.updates='3.5'"),
        (["train.lr=fast"], r"train.lr='fast'; valid: a value of type float"),
        (["train.fast=yes"], r"train.fast='yes'; valid: a value of type bool"),
        (["sizes=1,x"], r"sizes\[1\]='x'"),
        (["shares.en=x"], r"shares.en='x'"),
        (["shares=x"], r"shares='x'"),
        (["train=3"], r"train='3'; valid: a value of type Inner"),
        (["train.lr.x=3"], r"train.lr=\{'x': '3'\}"),
        (["mode=summ"], r"unknown value for mode 'summ'.*did you mean 'sum'"),
        (["limit=x"], r"limit='x'; valid: a value of type int"),
        (["langs={a: b}"], r"langs=\{'a': 'b'\}"),
        (["langs=[a"], r"langs=\[a is not YAML"),
        (["langs"], r"cannot read 'langs'"),
        (["=3"], r"cannot read '=3'"),
    ],
)
def test_wrong_settings_are_user_errors(overrides: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        config.load(Outer, overrides=overrides)
    assert "\n" not in str(caught.value)


# Nine lists of nine of the list before: 3,486,784,401 texts, in 400 bytes.
ALIASES = (
    "a0: &a0 [" + "x," * 9 + "]\n" + "".join(f"a{i}: &a{i} [{f'*a{i - 1},' * 9}]\n" for i in range(1, 10))
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: a\nname: b\n", r"'name' is given twice.*line 2"),
        ("train: {lr: 1, lr: 2}\n", r"'lr' is given twice"),
        ("scales: {a: {name: b}, a: {name: c}}\n", r"'a' is given twice"),
        ("? [a]\n: b\n", r"a key is not text"),
        ("- a\n", r"holds no settings"),
        ("", r"holds no settings"),
        ("a: [\n", r"is not YAML"),
        ("name: &a {b: *a}\n", r"more than 100,000 values with its aliases"),
        (ALIASES, r"more than 100,000 values with its aliases"),
        ("scales: x\n", r"scales='x'"),
        ("nam: b\n", r"recipe.yaml:1: unknown setting 'nam'"),
    ],
)
def test_wrong_recipes_are_user_errors(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        config.load(Outer, recipe(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_a_recipe_that_is_no_text_or_missing_is_a_user_error(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_bytes(b"name: \xff\n")
    with pytest.raises(UserError, match="is not YAML"):
        config.load(Outer, tmp_path / "recipe.yaml")
    with pytest.raises(UserError, match="no recipe at"):
        config.load(Outer, tmp_path / "absent.yaml")


def test_a_setting_without_default_must_be_given() -> None:
    assert config.load(Needed, overrides=["data=x"]) == Needed("x")
    with pytest.raises(UserError, match="data not given"):
        config.load(Needed)


def test_numbers_are_never_rounded_in_silence() -> None:
    with pytest.raises(UserError, match=r"updates=1\.5"):
        config.from_dict(Inner, {"updates": 1.5})
    with pytest.raises(UserError, match="updates=True"):
        config.from_dict(Inner, {"updates": True})


_TEXT = st.text(st.characters(codec="utf-8", exclude_characters=",\0"), min_size=1)
_WHOLE = st.integers(-(2**63), 2**63 - 1)
_NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
_OUTER = st.builds(
    Outer,
    name=_TEXT,
    langs=st.lists(_TEXT).map(tuple),
    sizes=st.lists(_WHOLE).map(tuple),
    shares=st.dictionaries(_TEXT, _NUMBERS),
    corpora=st.dictionaries(_TEXT, st.lists(_TEXT).map(tuple)),
    mode=st.sampled_from(["sum", "mean"]),
    limit=st.none() | _WHOLE,
    train=st.builds(Inner, lr=_NUMBERS, updates=_WHOLE, fast=st.booleans()),
    folder=st.sampled_from([Path("a"), Path("/b/c"), Path("ü")]),
)


@given(_OUTER)
def test_plain_values_survive_json_and_come_back(made: Outer) -> None:
    plain = json.loads(json.dumps(config.to_dict(made)))
    assert config.from_dict(Outer, plain) == made


def test_merge_leaves_its_arguments_alone() -> None:
    base = {"a": {"b": "1"}, "c": "2"}
    assert config.merge(base, {"a": {"d": "3"}, "c": {"e": "4"}}) == {
        "a": {"b": "1", "d": "3"},
        "c": {"e": "4"},
    }
    assert base == {"a": {"b": "1"}, "c": "2"}


@dataclass(frozen=True)
class Output:
    out: str = ""
    other: tuple[str, ...] = ()
    seed: int = 1


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("seed", "100000000000000000000", "at most 64 bits"),
        ("seed", "1e30", "at most 64 bits"),
        ("seed", "-9223372036854775809", "at most 64 bits"),
        ("out", "~", "write [$]HOME"),
        ("out", "~/x", "write [$]HOME"),
        ("out", "-rf", r"or [.]/-rf"),
        ("out", "a\0b", "without NUL bytes"),
        ("other", "[" * 1000, "is not YAML"),
    ],
)
def test_hostile_values_are_refused(key: str, value: str, expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        config.load(Output, overrides=[f"{key}={value}"])


def test_a_recipe_that_is_nested_too_deep_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("a: " + "[" * 1000)
    with pytest.raises(UserError, match="is not YAML"):
        config.read_yaml(tmp_path / "x.yaml")

"""Closed lists of named things."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from xling.core.errors import UserError
from xling.core.registry import Registry, plugin_entry_points


def test_things_come_back_by_name_in_order() -> None:
    things: Registry[int] = Registry("thing")
    assert things.add("b", 1) == 1
    assert things.register("a")(2) == 2
    assert dict(things) == {"b": 1, "a": 2} and list(things) == ["b", "a"] and len(things) == 2


def test_a_name_registered_twice_is_a_mistake_of_the_program() -> None:
    things: Registry[int] = Registry("thing")
    things.add("a", 1)
    with pytest.raises(ValueError, match="thing 'a' is registered twice"):
        things.add("a", 1)
    assert things["a"] == 1


def test_an_unknown_name_answers_with_the_nearest() -> None:
    things: Registry[int] = Registry("thing")
    things.add("mono", 1)
    with pytest.raises(UserError, match=r"unknown thing 'mnoo'; fix: did you mean 'mono'\?; valid: mono"):
        things["mnoo"]


def test_asking_for_membership_never_raises() -> None:
    things: Registry[int] = Registry("thing")
    things.add("a", 1)
    assert "a" in things and "b" not in things and 3 not in things and things.get("a") == 1


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry[type]]:
    """A registry over a package of three files: two of one thing each and one of several."""
    package = tmp_path / "trial_folder"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from xling.core.registry import Registry\nTHINGS = Registry('thing', __name__, plugin='thing')\n"
    )
    for name, names in {"zebra": ["zebra"], "ant": ["ant"], "several": ["bee", "cow"]}.items():
        lines = [f"@THINGS.register('{each}')\nclass {each.title()}: pass\n" for each in names]
        (package / f"{name}.py").write_text("from trial_folder import THINGS\n" + "".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("trial_folder").THINGS
    for name in [name for name in sys.modules if name.partition(".")[0] in ("trial_folder", "trial_plugin")]:
        del sys.modules[name]


def test_a_thing_is_got_by_importing_its_file_alone(folder: Registry[type]) -> None:
    assert folder["zebra"].__name__ == "Zebra" and "zebra" in folder
    assert "trial_folder.ant" not in sys.modules
    assert folder["cow"].__name__ == "Cow", "a thing in a file of another name is found too"


def test_a_folder_is_listed_by_name_whatever_was_imported_first(folder: Registry[type]) -> None:
    importlib.import_module("trial_folder.zebra")
    assert list(folder) == ["ant", "bee", "cow", "zebra"] and len(folder) == 4
    assert [thing.__name__ for thing in folder.values()] == ["Ant", "Bee", "Cow", "Zebra"]
    with pytest.raises(UserError, match=r"unknown thing 'zebr'; .*'zebra'.*; valid: ant, bee, cow, zebra"):
        folder["zebr"]
    assert "../zebra" not in folder and "__init__" not in folder


def test_a_name_in_two_files_is_a_mistake_of_the_program(folder: Registry[type], tmp_path: Path) -> None:
    twin = "from trial_folder import THINGS\nTHINGS.add('ant', int)\n"
    (tmp_path / "trial_folder" / "twin.py").write_text(twin)
    with pytest.raises(ValueError, match="thing 'ant' is registered twice"):
        folder.discover()


def test_a_reference_is_imported_when_it_is_asked_for(folder: Registry[type]) -> None:
    things: Registry[type] = Registry("thing")
    things.register_target("z", "trial_folder.zebra:Zebra")
    assert list(things) == ["z"] and "trial_folder.zebra" not in sys.modules
    assert things["z"] is folder["zebra"] and things["z"] is things["z"]
    for again in (lambda: things.register_target("z", "trial_folder.ant:Ant"), lambda: things.add("z", int)):
        with pytest.raises(ValueError, match="thing 'z' is registered twice"):
            again()


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Installs a distribution with entry points and modules in a site directory of its own."""

    def put(name: str, points: dict[str, str], modules: dict[str, str]) -> None:
        site = tmp_path / f"site-{name}"
        about = site / f"{name.replace('-', '_')}-1.0.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = "".join(f"{point} = {value}\n" for point, value in points.items())
        (about / "entry_points.txt").write_text(f"[xling.plugins]\n{lines}")
        for module, text in modules.items():
            (site / f"{module}.py").write_text(text)
        monkeypatch.syspath_prepend(site)
        plugin_entry_points.cache_clear()

    yield put
    plugin_entry_points.cache_clear()


REGISTERS = "from trial_folder import THINGS\n@THINGS.register('{name}')\nclass Made: pass\n"


def test_another_package_adds_a_thing(folder: Registry[type], install: Callable[..., None]) -> None:
    install(
        "trial-plugin",
        {"thing.made": "trial_plugin", "thing.whole": "trial_plugin:Made", "stage.other": "missing"},
        {"trial_plugin": REGISTERS.format(name="made")},
    )
    assert list(folder) == ["ant", "bee", "cow", "made", "whole", "zebra"]
    assert "trial_plugin" not in sys.modules, "listing imports no other package"
    assert folder["made"] is folder["whole"] is importlib.import_module("trial_plugin").Made


@pytest.mark.parametrize(
    ("points", "text", "message"),
    [
        (
            {"thing.ant": "trial_plugin:Made"},
            "class Made: pass",
            "'ant' of package trial-plugin has a name that is taken",
        ),
        (
            {"thing.ant": "trial_plugin"},
            REGISTERS.format(name="ant"),
            "'ant' of package trial-plugin has a name",
        ),
        (
            {"thing.new": "trial_plugin"},
            "",
            "'new' of package trial-plugin: trial_plugin does not register the name",
        ),
        ({"thing.new": "trial_plugin"}, "1 / 0", "cannot be loaded: ZeroDivisionError: division by zero"),
        ({"thing.new": "trial_plugin:No"}, "", "cannot be loaded: AttributeError"),
        ({"thing.new": "trial_plugin"}, REGISTERS.format(name="cow"), "thing 'cow' is registered twice"),
    ],
)
def test_a_package_that_adds_nothing_usable_is_named(
    folder: Registry[type],
    install: Callable[..., None],
    points: dict[str, str],
    text: str,
    message: str,
) -> None:
    install("trial-plugin", points, {"trial_plugin": text})
    ((name, _),) = points.items()
    with pytest.raises(UserError, match=message):
        folder[name.removeprefix("thing.")]
    assert folder["zebra"].__name__ == "Zebra", "the others are found all the same"


def test_two_packages_that_add_one_name_are_named(
    folder: Registry[type], install: Callable[..., None]
) -> None:
    for name in ("trial-one", "trial-two"):
        install(name, {"thing.new": "trial_plugin"}, {"trial_plugin": REGISTERS.format(name="new")})
    with pytest.raises(UserError, match=r"package trial-\w+ and package trial-\w+ both add the thing 'new'"):
        folder["new"]

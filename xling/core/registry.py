"""Names to things: the one way in which objectives, corpus stages, sources, suites, metrics and others register.

A registry finds its things in three places and imports each when it is asked for:

- the files of its folder: one file registers one thing with ``@REGISTRY.register("name")`` and is called
  ``name.py``, so that asking for it imports no other file;
- what `Registry.refer` names, ``package.module:attribute``;
- the entry points of other installed packages in the group ``xling.plugins``. The name of an entry point is the
  word of the registry, a dot and the name of the thing; its value is a module that registers the thing, or
  ``package.module:attribute``::

      [project.entry-points."xling.plugins"]
      "objective.mine" = "my_package.mine"
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from xling.core.errors import UserError, unknown

T = TypeVar("T")

PLUGINS = "xling.plugins"
"""The group of entry points in which another package names what it adds."""


class Registry(Mapping[str, T], Generic[T]):
    """A list of named things: in the order of registration, or by name if they come from a folder.

    Args:
        kind: what the things are called in error messages, for example ``corpus stage``.
        folder: package whose modules register the things; "" for none.
        plugin: first word of the entry points that add things, for example ``stage``; "" takes none.
    """

    def __init__(self, kind: str, folder: str = "", plugin: str = "") -> None:
        self.kind, self.folder, self.plugin = kind, folder, plugin
        self._things: dict[str, T] = {}
        self._targets: dict[str, str] = {}
        self._plugins: dict[str, EntryPoint] | None = None if plugin else {}
        self._discovered = not folder

    def add(self, name: str, thing: T) -> T:
        """Register ``thing`` and return it.

        Raises:
            ValueError: the name is taken; two things of one name are a mistake of the program.
        """
        if name in self._things or name in self._targets:
            raise ValueError(f"{self.kind} {name!r} is registered twice")
        self._things[name] = thing
        return thing

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator form of `add`."""
        return lambda thing: self.add(name, thing)

    def refer(self, name: str, target: str) -> None:
        """Register ``package.module:attribute``, which is imported when it is asked for.

        Raises:
            ValueError: the name is taken.
        """
        if name in self._things or name in self._targets:
            raise ValueError(f"{self.kind} {name!r} is registered twice")
        self._targets[name] = target

    def discover(self) -> None:
        """Import every module of the folder, so that all that they register is known."""
        if self._discovered:
            return
        self._discovered = True  # first: a module may look into the registry while it is imported
        for name in self._files():
            importlib.import_module(f"{self.folder}.{name}")

    def __getitem__(self, name: str) -> T:
        """The thing called ``name``.

        Raises:
            UserError: no such name, with the valid names and the nearest ones; or another package's thing cannot
                be loaded or takes a name that exists.
        """
        if name in self._find_plugins():
            self._load_plugin(name)
        if name in self._targets:
            module, _, attribute = self._targets[name].partition(":")
            self._things[name] = getattr(importlib.import_module(module), attribute)
            del self._targets[name]
        if not self._import_file(name):
            self.discover()
        if name not in self._things:
            raise unknown(self.kind, name, self)
        return self._things[name]

    def __contains__(self, name: object) -> bool:
        return (isinstance(name, str) and self._import_file(name)) or name in list(self)

    def __iter__(self) -> Iterator[str]:
        self.discover()
        names = dict.fromkeys((*self._things, *self._targets, *self._find_plugins()))
        return iter(sorted(names) if self.folder else names)

    def __len__(self) -> int:
        return len(list(iter(self)))

    def _files(self) -> list[str]:
        return [module.name for module in pkgutil.iter_modules(importlib.import_module(self.folder).__path__)]

    def _import_file(self, name: str) -> bool:
        """Import the file called like the thing, if there is one; returns whether the thing is registered."""
        if name not in self._things and not self._discovered and name in self._files():
            importlib.import_module(f"{self.folder}.{name}")
        return name in self._things

    def _find_plugins(self) -> dict[str, EntryPoint]:
        """The entry points of other packages that are not loaded yet, by the name of the thing.

        Raises:
            UserError: two packages add the same name.
        """
        if self._plugins is None:
            found: dict[str, EntryPoint] = {}
            for point in plugins():
                word, _, name = point.name.partition(".")
                if word == self.plugin and name in found:
                    raise UserError(
                        f"{_owner(point)} and {_owner(found[name])} both add the {self.kind} {name!r}",
                        fix="uninstall one of them",
                    )
                if word == self.plugin:
                    found[name] = point
            self._plugins = found
        return self._plugins

    def _load_plugin(self, name: str) -> None:
        """Import what another package adds.

        Raises:
            UserError: it cannot be imported, registers nothing of that name, or the name is taken.
        """
        self.discover()
        point = self._find_plugins()[name]
        added = f"the {self.kind} {name!r} of {_owner(point)}"
        if name in self._targets or (name in self._things and point.module not in sys.modules):
            raise UserError(f"{added} takes a name that exists", "a new name", "rename its entry point")
        try:
            loaded = point.load()
        except Exception as error:  # whatever a foreign module does wrong when it is imported
            problem = f"{type(error).__name__}: {error}"
            raise UserError(f"{added} cannot be loaded: {problem}", fix="update or uninstall it") from error
        if point.attr:
            self._things.setdefault(name, loaded)
        if name not in self._things:
            raise UserError(f"{added}: {point.value} does not register it", f'@REGISTRY.register("{name}")')
        del self._find_plugins()[name]


@functools.cache
def plugins() -> tuple[EntryPoint, ...]:
    """The entry points of all installed packages in the group `PLUGINS`."""
    return tuple(entry_points(group=PLUGINS))


def _owner(point: EntryPoint) -> str:
    return f"package {point.dist.name}" if point.dist else f"entry point {point.name}"

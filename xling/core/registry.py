"""Registries that map names to objectives, corpus stages, sources, suites, metrics and other extensions.

A registry looks in three places and imports an entry only when it is requested:

- the files of its folder: one file registers one entry with ``@REGISTRY.register("name")`` and is called
  ``name.py``, so that requesting it imports no other file;
- the targets given to `Registry.refer`, ``package.module:attribute``;
- the entry points of other installed packages in the group ``xling.plugins``. The name of an entry point is
  the registry's prefix, a dot and the name of the entry, with a dot for each blank; its value is a module that
  registers the entry, or ``package.module:attribute``::

      [project.entry-points."xling.plugins"]
      "objective.mine" = "my_package.mine"
      "command.corpus.mine" = "my_package.commands:MINE"
"""

import functools
import importlib
import pkgutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from xling.core.errors import UserError, unknown

T = TypeVar("T")

PLUGINS = "xling.plugins"
"""The entry point group in which other packages declare their extensions."""


class Registry(Mapping[str, T], Generic[T]):
    """A mapping of names to entries, in the order of registration, or sorted by name if they come from a folder.

    Args:
        kind: what the entries are called in error messages, for example ``corpus stage``.
        folder: package whose modules register the entries; "" for none.
        plugin: prefix of the entry points that add entries, for example ``stage``; "" allows none.
        find_problem: says what is wrong with an attribute that an entry point names for a name; "" if nothing is.
    """

    def __init__(
        self,
        kind: str,
        folder: str = "",
        plugin: str = "",
        find_problem: Callable[[str, Any], str] = lambda name, thing: "",
    ) -> None:
        self.kind, self.folder, self.plugin, self.find_problem = kind, folder, plugin, find_problem
        self._entries: dict[str, T] = {}
        self._targets: dict[str, str] = {}
        self._plugins: dict[str, EntryPoint] | None = None if plugin else {}
        self._discovered = not folder

    def add(self, name: str, entry: T) -> T:
        """Register a thing under a name and return it.

        Raises:
            ValueError: the name is taken, which is a bug in the program.
        """
        if name in self._entries or name in self._targets:
            raise ValueError(f"{self.kind} {name!r} is registered twice")
        self._entries[name] = entry
        return entry

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that registers its argument; see `add`."""
        return lambda entry: self.add(name, entry)

    def register_target(self, name: str, target: str) -> None:
        """Register ``package.module:attribute``, which is imported when it is requested.

        Raises:
            ValueError: the name is taken.
        """
        if name in self._entries or name in self._targets:
            raise ValueError(f"{self.kind} {name!r} is registered twice")
        self._targets[name] = target

    def discover(self) -> None:
        """Import every module of the folder, so that all of its entries are registered."""
        if self._discovered:
            return
        self._discovered = True  # set first: a module may read the registry while it is imported
        for name in self._files():
            importlib.import_module(f"{self.folder}.{name}")

    def __getitem__(self, name: str) -> T:
        """Return the registered thing called ``name``, importing it if needed.

        Raises:
            UserError: the name does not exist (the message lists the valid and the nearest names), or another
                package's entry cannot be loaded or takes an existing name.
        """
        if name in self._find_plugins():
            self._load_plugin(name)
        if name in self._targets:
            module, _, attribute = self._targets[name].partition(":")
            self._entries[name] = getattr(importlib.import_module(module), attribute)
            del self._targets[name]
        if not self._import_file(name):
            self.discover()
        if name not in self._entries:
            raise unknown(self.kind, name, self)
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        return (isinstance(name, str) and self._import_file(name)) or name in list(self)

    def __iter__(self) -> Iterator[str]:
        self.discover()
        names = dict.fromkeys((*self._entries, *self._targets, *self._find_plugins()))
        return iter(sorted(names) if self.folder else names)

    def __len__(self) -> int:
        return len(list(iter(self)))

    def _files(self) -> list[str]:
        return [module.name for module in pkgutil.iter_modules(importlib.import_module(self.folder).__path__)]

    def _import_file(self, name: str) -> bool:
        """Import the file named after the entry, if it exists; return whether the entry is then registered."""
        if name not in self._entries and not self._discovered and name in self._files():
            importlib.import_module(f"{self.folder}.{name}")
        return name in self._entries

    def _find_plugins(self) -> dict[str, EntryPoint]:
        """Return the entry points of other packages that are not loaded yet, by entry name.

        Raises:
            UserError: two packages add the same name.
        """
        if self._plugins is None:
            points_by_name: dict[str, EntryPoint] = {}
            for point in plugin_entry_points():
                prefix, _, name = point.name.replace(".", " ").partition(" ")
                if prefix == self.plugin and name in points_by_name:
                    owners = f"{_describe_owner(point)} and {_describe_owner(points_by_name[name])}"
                    raise UserError(
                        f"{owners} both add the {self.kind} {name!r}",
                        fix="uninstall one of them",
                    )
                if prefix == self.plugin:
                    points_by_name[name] = point
            self._plugins = points_by_name
        return self._plugins

    def _load_plugin(self, name: str) -> None:
        """Import an entry that another package adds.

        Raises:
            UserError: it cannot be imported, does not register the name, or the name is taken.
        """
        self.discover()
        point = self._find_plugins()[name]
        description = f"the {self.kind} {name!r} of {_describe_owner(point)}"
        name_taken = UserError(
            f"{description} has a name that is taken", "a new name", "rename its entry point"
        )
        if name in self._targets or (name in self._entries and point.module not in sys.modules):
            raise name_taken
        try:
            loaded = point.load()
        except Exception as error:  # a plugin may raise anything when it is imported
            problem = f"{type(error).__name__}: {error}"
            raise UserError(
                f"{description} cannot be loaded: {problem}", fix="update or uninstall it"
            ) from error
        if point.attr and (problem := self.find_problem(name, loaded)):
            raise UserError(
                f"{description}: {point.value} {problem}", fix="correct the entry point or the name"
            )
        if point.attr and self._entries.setdefault(name, loaded) is not loaded:
            raise name_taken
        if name not in self._entries:
            raise UserError(
                f"{description}: {point.value} does not register the name {name!r}",
                f'a class or function with @REGISTRY.register("{name}")',
                "correct the entry point or the name",
            )
        del self._find_plugins()[name]


@functools.cache
def plugin_entry_points() -> tuple[EntryPoint, ...]:
    """Return the entry points of all installed packages in the group `PLUGINS`."""
    return tuple(entry_points(group=PLUGINS))


def _describe_owner(point: EntryPoint) -> str:
    return f"package {point.dist.name}" if point.dist else f"entry point {point.name}"


def load(target: str) -> Any:
    """Import ``module:attribute`` and return the attribute."""
    module, _, attribute = target.partition(":")
    loaded = getattr(importlib.import_module(module), attribute)
    # polars restarts system calls after SIGINT, so Ctrl-C would not end a blocking read.
    signal.siginterrupt(signal.SIGINT, True)
    return loaded

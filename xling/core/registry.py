"""Names to things: a name registered twice is an error, an unknown one answers with the nearest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

from xling.core.errors import unknown

T = TypeVar("T")


class Registry(Mapping[str, T], Generic[T]):
    """A closed list of named things.

    Args:
        kind: what the things are called in error messages, for example ``objective``.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._things: dict[str, T] = {}

    def add(self, name: str, thing: T) -> T:
        """Register ``thing`` and return it.

        Raises:
            ValueError: the name is taken; two things of one name are a mistake of the program.
        """
        if name in self._things:
            raise ValueError(f"{self.kind} {name!r} is registered twice")
        self._things[name] = thing
        return thing

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator form of `add`."""
        return lambda thing: self.add(name, thing)

    def __getitem__(self, name: str) -> T:
        """The thing called ``name``.

        Raises:
            UserError: no such name; the message lists the valid names and the nearest ones.
        """
        if name not in self._things:
            raise unknown(self.kind, name, self._things)
        return self._things[name]

    def __contains__(self, name: object) -> bool:
        return name in self._things

    def __iter__(self) -> Iterator[str]:
        return iter(self._things)

    def __len__(self) -> int:
        return len(self._things)

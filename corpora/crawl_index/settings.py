"""Limits and choices of a crawl that is read by its index."""

from collections.abc import Callable
from dataclasses import dataclass

from xling.text.document import Document

AUTO = "auto"


@dataclass(frozen=True)
class IndexSettings:
    """Limits and choices of ``cc-index:``.

    Attributes:
        num_bytes: that may be downloaded, of the index and of records; 0 for no limit.
        seconds: that the downloads may take; 0 for no limit.
        hosts: ``auto`` ranks hosts by a sample of their pages, the path of a table by that; "" does so only for
            a language that the index does not name.
        neighbours: codes of the index under which pages of the language stand, beside its own.
        contact: address for the operators of the server.
        identify: says of each document whether it is in the language; None where nothing can.
        only_plan: whether no record is fetched.
    """

    num_bytes: int = 20_000_000_000
    seconds: float = 0.0
    hosts: str = ""
    neighbours: tuple[str, ...] = ()
    contact: str = ""
    identify: Callable[[list[Document]], list[bool]] | None = None
    only_plan: bool = False

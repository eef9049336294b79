"""Several pieces of one file by few requests: neighbours are joined into one."""

from collections.abc import Sequence
from dataclasses import dataclass

from xling.corpora.common.ranges import RangeReader

GAP_BYTES = 1 << 16
"""Pieces this near are joined: the bytes between them cost less than another request."""
MAX_JOINED_BYTES = 1 << 23
Piece = tuple[int, int]
"""Position and size."""


@dataclass(frozen=True)
class Joined:
    """One request.

    Attributes:
        start: position of its first byte.
        size: its bytes.
        pieces: numbers of the pieces that it holds.
    """

    start: int
    size: int
    pieces: tuple[int, ...]


def joined(pieces: Sequence[Piece], gap: int = GAP_BYTES, most: int = MAX_JOINED_BYTES) -> list[Joined]:
    """Return the requests that bring all ``pieces`` of one file, by position; a large piece is one by itself."""
    requests: list[Joined] = []
    for number in sorted(range(len(pieces)), key=pieces.__getitem__):
        start, size = pieces[number]
        if requests:
            last = requests[-1]
            end = max(last.start + last.size, start + size)
            if start - (last.start + last.size) <= gap and end - last.start <= most:
                requests[-1] = Joined(last.start, end - last.start, (*last.pieces, number))
                continue
        requests.append(Joined(start, size, (number,)))
    return requests


def read_pieces(reader: RangeReader, location: str, pieces: Sequence[Piece]) -> list[bytes]:
    """Return the bytes of each piece of a file; errors as of `RangeReader.read`."""
    hits = [b""] * len(pieces)
    for request in joined(pieces):
        data, _ = reader.read(location, request.start, request.size)
        for number in request.pieces:
            start, size = pieces[number]
            hits[number] = data[start - request.start :][:size]
    return hits

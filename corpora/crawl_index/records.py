"""Fetching of a batch of records into one WARC file, which goes on wherever it was ended.

Beside the file lies a journal with a line for each request that is done: its number, the bytes that it added, and the
records that it did not. What the file holds behind the bytes of the journal is cut off before more is added.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from xling.core.errors import UserError
from xling.core.output import sealed
from xling.corpora.common.ranges import CONNECTIONS, DamagedAnswerError, MissingError, RangeReader, SpentError
from xling.corpora.crawl_index.selection import Request

GONE, DAMAGED, NO_RECORD = "records that are gone", "records that never came whole", "ranges without a record"
_GZIP = b"\x1f\x8b"
_MAX_LOST_IN_A_ROW = 50
_PLAN_AGAIN = "run the command again with overwrite=true: it plans again"
_SUM = "sha256"


def save_batch(path: Path, batch: list[Request]) -> None:
    """Write the requests of the WARC file ``path`` beside it."""
    place = path.with_suffix(".json")
    if not sealed.is_good(place):
        sealed.write_json(place, [asdict(request) for request in batch])


def _requests_of(path: Path) -> list[Request]:
    place = path.with_suffix(".json")
    if not place.is_file():
        raise UserError(f"{place} is gone", fix=_PLAN_AGAIN)
    return [
        Request(r["path"], r["start"], r["size"], tuple((a, b) for a, b in r["records"]))
        for r in sealed.read_json(place, _PLAN_AGAIN)
    ]


def _journal(path: Path) -> list[dict[str, Any]]:
    """Return the lines of the journal whose bytes are in the file."""
    place = path.with_suffix(".journal")
    lines: list[dict[str, Any]] = []
    if not place.is_file() or not path.is_file():
        return lines
    size, num_bytes = path.stat().st_size, 0
    for text in place.read_text(encoding="utf-8").split("\n")[:-1]:  # the last line may not be whole
        try:
            line = json.loads(text)
            if line.pop(_SUM) != _sum(line):
                break
            num_bytes += line["bytes"]
        except (ValueError, KeyError, AttributeError, TypeError):
            break
        if num_bytes > size:
            break
        lines.append(line)
    return lines


def _cut_journal(path: Path, lines: list[dict[str, Any]]) -> Path:
    """Leave ``lines`` alone in the journal of the WARC file ``path``, and return its path."""
    place = path.with_suffix(".journal")
    temporary = place.with_name(f".{os.getpid()}.{place.name}")
    temporary.write_bytes(b"".join(map(_line, lines)))
    temporary.replace(place)
    return place


def lost(path: Path) -> Counter[str]:
    """Return what was not fetched of a batch, reason -> records, and the bytes that were under ``""``."""
    counts: Counter[str] = Counter()
    lines, requests = _journal(path), _requests_of(path)
    for line in lines:
        counts.update(line["lost"])
        counts[""] += line["came"]
    done = {line["number"] for line in lines}
    counts["not fetched (size= or time=)"] += sum(
        len(request.records) for number, request in enumerate(requests) if number not in done
    )
    return +counts


def is_complete(path: Path) -> bool:
    """Return whether every request of a batch is done."""
    return path.is_file() and len(_journal(path)) == len(_requests_of(path))


def fetch_batch(
    path: Path,
    reader: RangeReader,
    locate: Callable[[str], str],
    connections: int = CONNECTIONS,
    on_records: Callable[[int], object] = lambda num: None,
) -> bool:
    """Fetch the records of a batch that are not there yet; False where a limit left some out.

    Args:
        path: the WARC file.
        locate: path in the index -> address.
        connections: requests at once.
        on_records: called with the number of records of each request that is done.

    Raises:
        UserError: the server refuses or cannot be reached, or has none of many records in a row.
    """
    requests, lines = _requests_of(path), _journal(path)
    lost_in_a_row, is_whole = 0, True
    with (
        path.open("ab") as file,
        _cut_journal(path, lines).open("ab") as journal,
        ThreadPoolExecutor(min(connections, CONNECTIONS)) as pool,
    ):
        file.truncate(sum(line["bytes"] for line in lines))
        done = {line["number"] for line in lines}
        on_records(sum(len(requests[number].records) for number in done))
        left = {number: request for number, request in enumerate(requests) if number not in done}
        answers = _in_order(pool, reader, locate, left.values())
        for (number, request), answer in zip(left.items(), answers, strict=True):
            if answer is None:  # others that are smaller may still be let through
                is_whole = False
                continue
            data, line = answer
            file.write(data)
            file.flush()
            journal.write(_line({"number": number, **line}))
            journal.flush()
            on_records(len(request.records))
            lost_in_a_row = 0 if data else lost_in_a_row + 1
            if lost_in_a_row >= _MAX_LOST_IN_A_ROW:
                raise UserError(
                    f"{locate(request.path)}: none of {lost_in_a_row} ranges in a row has a record",
                    fix="check that base_urls.cc has the dump that the index is of",
                )
    return is_whole


def _line(line: dict[str, Any]) -> bytes:
    return json.dumps({**line, _SUM: _sum(line)}).encode() + b"\n"


def _sum(line: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(line).encode()).hexdigest()[:16]


def _in_order(
    pool: ThreadPoolExecutor, reader: RangeReader, locate: Callable[[str], str], requests: Iterable[Request]
) -> Iterator[tuple[bytes, dict[str, Any]] | None]:
    """Yield the answers in the order of the requests; None where a limit is reached. A few are ahead of it."""
    jobs = [pool.submit(_fetch, reader, locate, request) for request in requests]
    try:
        for job in jobs:
            yield job.result()
    finally:
        for job in jobs:
            job.cancel()


def _fetch(
    reader: RangeReader, locate: Callable[[str], str], request: Request
) -> tuple[bytes, dict[str, Any]] | None:
    """Return the records of a request and its line for the journal."""
    try:
        data, _ = reader.read(locate(request.path), request.start, request.size)
    except SpentError:
        return None
    except (MissingError, DamagedAnswerError) as error:
        if len(request.records) > 1:  # one of them may be the cause
            return _one_by_one(reader, locate, request)
        reason = GONE if isinstance(error, MissingError) else DAMAGED
        return b"", {"bytes": 0, "came": 0, "lost": {reason: len(request.records)}}
    pieces = [data[start : start + size] for start, size in request.records]
    good = [piece for piece in pieces if piece.startswith(_GZIP)]
    counts = {NO_RECORD: len(pieces) - len(good)} if len(good) < len(pieces) else {}
    kept = b"".join(good)
    return kept, {"bytes": len(kept), "came": len(data), "lost": counts}


def _one_by_one(
    reader: RangeReader, locate: Callable[[str], str], request: Request
) -> tuple[bytes, dict[str, Any]] | None:
    kept, came, counts = b"", 0, Counter[str]()
    for start, size in request.records:
        answer = _fetch(reader, locate, Request(request.path, request.start + start, size, ((0, size),)))
        if answer is None:
            return None
        kept += answer[0]
        came += answer[1]["came"]
        counts.update(answer[1]["lost"])
    return kept, {"bytes": len(kept), "came": came, "lost": dict(counts)}

"""Polite requests of ranges of files over HTTP, within limits of bytes and time; of local folders too.

Common Crawl's servers are shared by all who read it. So there are few requests a second; any status of 400 and more
halves their rate, with jitter, and answers without one raise it again slowly. Repeated 403 ends the work. The bytes
that came and the time that went are kept in a file, so that the limits hold over all runs together.
"""

import http.client
import math
import random
import re
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from xling.core.errors import UserError
from xling.core.output import sealed
from xling.corpora.common.download import Patience, is_retried, open_url, parse_length, retry_after

MAX_RANGE_BYTES = 1 << 28
"""Of one request; the largest are columns of a row group."""
REQUESTS_PER_S = 10.0
"""Highest rate; Common Crawl has a few thousand a second for everybody together."""
BURST = 100
"""Requests that may come at once before the rate counts."""
CONNECTIONS = 4
_SLOWEST_PER_S = 1 / 60
_RECOVERY = 1.02  # of the rate, for each answer without an error
_MAX_REFUSALS = 3
_MISSING = frozenset({404, 410, 416})
_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})")


class SpentError(Exception):
    """Raised where a limit of bytes or time allows no further request; the text is the limit's setting."""


class MissingError(Exception):
    """Raised where the server has no such file or range."""


class DamagedAnswerError(Exception):
    """Raised where a server answered every try with other bytes than were asked for."""


class Limits:
    """Bytes and seconds that may be spent, and those that were, kept in a file over all runs.

    Args:
        num_bytes: that may come; 0 for no limit.
        seconds: of work; 0 for no limit.

    Attributes:
        spent: bytes that came, by what they are.
        kind: what the next ones are.
    """

    def __init__(self, path: Path, num_bytes: int = 0, seconds: float = 0.0) -> None:
        self._path, self._num_bytes, self._seconds = path, num_bytes, seconds
        spent: dict[str, Any] = {"bytes": {}, "seconds": 0.0}
        if path.is_file():
            spent = sealed.read_json(
                path, "delete it: what came before is then not counted for size= and time="
            )
        self.spent: Counter[str] = Counter(spent["bytes"])
        self.kind = "index"
        self._earlier_seconds: float = spent["seconds"]
        self._started_at = time.monotonic()
        self._asked, self._settled = 0, threading.Condition()

    @property
    def spent_seconds(self) -> float:
        """Seconds of this run and all earlier ones."""
        return self._earlier_seconds + time.monotonic() - self._started_at

    @property
    def left_s(self) -> float:
        """Seconds that are left, 0 where there are none."""
        return max(0.0, self._seconds - self.spent_seconds) if self._seconds else math.inf

    def reserve(self, num_bytes: int) -> None:
        """Begin a request; where others may leave it enough, it waits for their end.

        Raises:
            SpentError: it goes over a limit.
        """
        with self._settled:
            while self._asked and self._is_over(num_bytes):
                self._settled.wait()
            if not self.left_s:
                raise SpentError("time=")
            if self._is_over(num_bytes):
                raise SpentError("size=")
            self._asked += num_bytes

    def _is_over(self, num_bytes: int) -> bool:
        return bool(self._num_bytes) and self.spent.total() + self._asked + num_bytes > self._num_bytes

    def settle(self, asked: int, came: int) -> None:
        """End a request that was begun for ``asked`` bytes and brought ``came``."""
        with self._settled:
            self._asked -= asked
            self._settled.notify_all()
            self.spent[self.kind] += came
            spent = {"bytes": dict(self.spent), "seconds": round(self.spent_seconds, 1)}
            sealed.write_json(self._path, spent)


@dataclass
class Pace:
    """The rate of requests, shared by all threads.

    Attributes:
        most: highest rate, requests a second.
        burst: requests that may come at once.
        rate: as it is now.
        refusals: answers of 403 in a row, those counted once that came together.
    """

    most: float = REQUESTS_PER_S
    burst: int = BURST
    rate: float = field(init=False)
    refusals: int = 0

    def __post_init__(self) -> None:
        """Begin with the highest rate."""
        self.rate, self._tokens, self._filled_at = self.most, float(self.burst), time.monotonic()
        self._lock, self._round = threading.Lock(), 0

    def next_wait(self) -> tuple[float, int]:
        """Return the seconds until the next request may begin, and the round that it is of."""
        with self._lock:
            now = time.monotonic()
            self._tokens = min(self.burst, self._tokens + (now - self._filled_at) * self.rate) - 1
            self._filled_at = now
            return max(0.0, -self._tokens / self.rate), self._round

    def slow_down(self, of_round: int, refused: bool) -> None:
        """Halve the rate after an error; ``of_round`` is that of its request."""
        with self._lock:
            self.rate = max(_SLOWEST_PER_S, self.rate / 2 * random.uniform(0.9, 1.0))
            self._tokens = min(0.0, self._tokens)
            if of_round == self._round:
                self.refusals += refused
                self._round += 1

    def speed_up(self) -> None:
        """Raise the rate a little after an answer."""
        with self._lock:
            self.refusals = 0
            self.rate = min(self.most, self.rate * _RECOVERY)


class _RetryError(Exception):
    """Raised where a request may succeed when it is repeated."""

    def __init__(self, reason: str, came: int, wait_s: float = 0.0, is_damage: bool = False) -> None:
        super().__init__(reason)
        self.came, self.wait_s, self.is_damage = came, wait_s, is_damage


def user_agent(contact: str) -> str:
    """Return the name under which requests are made: the project, and whom to write to."""
    about = f"Python package xling; {f'contact {contact}' if contact else 'no contact given'}"
    return f"xling/{metadata.version('xling')} ({about})"


class RangeReader:
    """Reads ranges of files, each within the limits.

    Args:
        contact: an address for the server's operators.
        sleep: waits; tests replace it.
    """

    def __init__(
        self,
        limits: Limits,
        contact: str = "",
        pace: Pace | None = None,
        patience: Patience | None = None,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.limits, self.pace, self.num_requests = limits, pace or Pace(), 0
        self._patience, self._sleep, self._agent = patience or Patience(), sleep, user_agent(contact)

    def read(self, location: str, start: int, size: int) -> tuple[bytes, int]:
        """Return ``size`` bytes from position ``start`` of a file, and how long the file is.

        Raises:
            SpentError: a limit is reached.
            MissingError: there is no such file, or it ends before.
            DamagedAnswerError: other bytes came at every try.
            UserError: the server refuses, cannot be reached, or answers no ranges.
        """
        if not 0 < size <= MAX_RANGE_BYTES:
            raise MissingError(f"{size:,} bytes are no range")
        failures = 0
        while True:
            self.limits.reserve(size)
            came = 0
            try:
                data, total = self._once(location, start, size)
                came = len(data)
                return data, total
            except _RetryError as error:
                came, failures = error.came, failures + 1
                reason, asked_s, is_damage = str(error), error.wait_s, error.is_damage
            finally:
                self.limits.settle(size, came)
            if not self.limits.left_s:
                raise SpentError("time=")
            if failures >= self._patience.num_tries:
                if is_damage:
                    raise DamagedAnswerError(f"{location}: {reason}")
                raise UserError(
                    f"{location}: {reason}; gave up after {failures} tries in a row",
                    fix="run the same command again later: it goes on from what has arrived",
                )
            wait_s = self._patience.first_wait_s * 2 ** (failures - 1) * random.uniform(0.5, 1.5)
            self._wait(min(max(wait_s, asked_s), self._patience.longest_wait_s))

    def _wait(self, seconds: float) -> None:
        """Wait, but no longer than the limit of time.

        Raises:
            SpentError: the time ends before.
        """
        left_s = self.limits.left_s
        self._sleep(min(seconds, left_s))
        if seconds >= left_s:
            raise SpentError("time=")

    def _once(self, location: str, start: int, size: int) -> tuple[bytes, int]:
        if not location.startswith(("http://", "https://")):
            return _read_local(Path(location), start, size)
        wait_s, of_round = self.pace.next_wait()
        if wait_s:
            self._wait(wait_s)
        if self.pace.refusals >= _MAX_REFUSALS:  # another thread was told
            raise _refused(location)
        self.num_requests += 1
        headers = {
            "User-Agent": self._agent,
            "Accept-Encoding": "identity",
            "Range": f"bytes={start}-{start + size - 1}",
        }
        try:
            with open_url(
                urllib.request.Request(location, headers=headers), self._patience.timeout_s
            ) as response:
                data, total = _received(response, location, start, size, self.limits)
        except urllib.error.HTTPError as error:
            with error:
                self.pace.slow_down(of_round, error.code == 403)
                raise self._failure(error, location) from None
        except (OSError, http.client.HTTPException) as error:
            raise _RetryError(str(getattr(error, "reason", "") or error) or type(error).__name__, 0) from None
        self.pace.speed_up()
        return data, total

    def _failure(self, error: urllib.error.HTTPError, location: str) -> Exception:
        status = f"HTTP {error.code}"
        if self.pace.refusals >= _MAX_REFUSALS:
            return _refused(location)
        if error.code in _MISSING:
            return MissingError(status)
        if is_retried(error.code):
            return _RetryError(status, 0, retry_after(error))
        return UserError(f"{location}: {status}", fix="check the dump and base_urls.cc")


def _refused(location: str) -> UserError:
    return UserError(
        f"{location}: HTTP 403, {_MAX_REFUSALS} times in a row: the server refuses this client",
        fix="wait some hours, then run the same command again: it goes on from what has arrived. "
        "contact=ADDRESS tells the operators whom to write to",
    )


def _read_local(path: Path, start: int, size: int) -> tuple[bytes, int]:
    if not path.is_file():
        raise MissingError(f"no file at {path}")
    with path.open("rb") as handle:
        handle.seek(start)
        data = handle.read(size)
    if len(data) < size:
        raise MissingError(f"{path} ends before")
    return data, path.stat().st_size


def _received(
    response: http.client.HTTPResponse, location: str, start: int, size: int, limits: Limits
) -> tuple[bytes, int]:
    """Return the body of an answer if it is the range that was asked for, and the length of the file."""
    length = parse_length(response.headers.get("Content-Length"))
    if response.status == 206:
        stated = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if not stated or int(stated[1]) != start:
            raise _RetryError("another range than was asked for", 0, is_damage=True)
        end, total = int(stated[2]) + 1, int(stated[3])
        if end < start + size and end == total:
            raise MissingError(f"{location} ends at {total:,}")
    elif start == 0 and length == size:  # the whole file
        total = size
    else:
        raise UserError(
            f"{location}: the server does not answer ranges",
            "a mirror that does",
            "give another base_urls.cc",
        )
    pieces: list[bytes] = []
    num = 0
    try:
        while num <= size and limits.left_s and (piece := response.read1(min(1 << 20, size + 1 - num))):
            pieces.append(piece)
            num += len(piece)
    except http.client.IncompleteRead as error:
        pieces.append(error.partial)
    except OSError:  # what has come counts; the length says that it is not all
        pass
    data = b"".join(pieces)
    if len(data) != size:
        raise _RetryError(f"got {len(data):,} of {size:,} bytes", len(data), is_damage=True)
    return data, total

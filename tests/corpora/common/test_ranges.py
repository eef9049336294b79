"""The rate of requests for ranges, and the amounts that limit them."""

from __future__ import annotations

import io
import threading
from email.message import Message
from pathlib import Path
from urllib.error import HTTPError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xling.core.errors import UserError
from xling.core.settings import values
from xling.corpora.common import ranges
from xling.corpora.common.download import Patience
from xling.corpora.common.ranges import Limits, Pace, RangeReader, SpentError
from xling.corpora.crawl_index.joined import joined


def test_an_error_halves_the_rate_and_answers_raise_it_slowly() -> None:
    pace = Pace(most=8.0, burst=0)
    _, first = pace.next_wait()
    pace.slow_down(first, refused=False)
    assert 8 / 2 * 0.9 <= pace.rate <= 4
    slow = pace.rate
    pace.speed_up()
    assert slow < pace.rate < 1.1 * slow
    for _ in range(100):
        pace.speed_up()
    assert pace.rate == 8.0
    for _ in range(100):
        pace.slow_down(pace.next_wait()[1], refused=False)
    assert pace.rate > 0


def test_refusals_that_come_together_count_once() -> None:
    pace = Pace()
    rounds = [pace.next_wait()[1] for _ in range(4)]
    for each in rounds:
        pace.slow_down(each, refused=True)
    assert pace.refusals == 1
    pace.slow_down(pace.next_wait()[1], refused=True)
    assert pace.refusals == 2
    pace.speed_up()
    assert pace.refusals == 0


def test_requests_beyond_the_burst_wait() -> None:
    pace = Pace(most=1.0, burst=3)
    waits = [pace.next_wait()[0] for _ in range(6)]
    assert waits[:3] == [0.0, 0.0, 0.0]
    assert 0 < waits[3] < waits[4] < waits[5] <= 3.0


def test_limits_hold_over_runs(tmp_path: Path) -> None:
    limits = Limits(tmp_path / "spent.json", num_bytes=100)
    limits.reserve(60)
    limits.settle(60, 50)
    again = Limits(tmp_path / "spent.json", num_bytes=100)
    again.reserve(50)
    again.settle(50, 50)
    with pytest.raises(SpentError, match="size="):
        again.reserve(1)
    assert again.spent == {"index": 100}


def test_a_request_waits_for_what_others_leave(tmp_path: Path) -> None:
    limits = Limits(tmp_path / "spent.json", num_bytes=100)
    limits.reserve(90)
    waiting = threading.Thread(target=limits.reserve, args=(50,))
    waiting.start()
    limits.settle(90, 10)
    waiting.join(10)
    assert not waiting.is_alive()


class Clock:
    """A clock that waiting moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(ranges.time, "monotonic", lambda: self.now)

    def wait(self, seconds: float) -> None:
        self.now += seconds


def test_no_wait_is_longer_than_the_time_that_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unavailable(*args: object) -> None:
        raise HTTPError("http://host/a", 503, "slow down", Message(), io.BytesIO())

    clock = Clock(monkeypatch)
    monkeypatch.setattr(ranges, "open_url", unavailable)
    limits = Limits(tmp_path / "spent.json", seconds=20.0)
    reader = RangeReader(limits, patience=Patience(num_tries=50, first_wait_s=9.0), sleep=clock.wait)
    with pytest.raises(SpentError, match="time="):
        reader.read("http://host/a", 0, 10)
    assert clock.now == 20.0
    slow = RangeReader(
        Limits(tmp_path / "b.json", seconds=5.0), pace=Pace(most=0.01, burst=0), sleep=clock.wait
    )
    with pytest.raises(SpentError, match="time="):
        slow.read("http://host/a", 0, 10)
    assert clock.now == 25.0


def test_a_slow_answer_ends_with_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)

    class Slow(io.BytesIO):
        status, headers = 206, Message()

        def read1(self, size: int | None = -1) -> bytes:
            clock.wait(4.0)
            return super().read1(1)

    Slow.headers["Content-Range"] = "bytes 0-9/100"
    monkeypatch.setattr(ranges, "open_url", lambda *args: Slow(b"0123456789"))
    limits = Limits(tmp_path / "spent.json", seconds=10.0)
    with pytest.raises(SpentError, match="time="):
        RangeReader(limits, sleep=clock.wait).read("http://host/a", 0, 10)
    assert (clock.now, limits.spent["index"]) == (12.0, 3)


def test_a_range_of_a_local_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"0123456789")
    reader = RangeReader(Limits(tmp_path / "spent.json"))
    assert reader.read(str(tmp_path / "a"), 3, 4) == (b"3456", 10)


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(1, 50)), max_size=20), st.integers(0, 30))
def test_joined_requests_hold_every_piece_once(pieces: list[tuple[int, int]], gap: int) -> None:
    requests = joined(pieces, gap, most=100)
    assert sorted(number for request in requests for number in request.pieces) == list(range(len(pieces)))
    for request in requests:
        assert request.size <= 100
        for number in request.pieces:
            start, size = pieces[number]
            assert request.start <= start and start + size <= request.start + request.size


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("20GB", 20_000_000_000),
        ("1.5 MB", 1_500_000),
        ("2GiB", 2 << 30),
        ("20", None),
        ("x", None),
        ("-1GB", None),
    ],
)
def test_amounts_of_bytes(text: str, value: int | None) -> None:
    assert values.num_bytes(text) == value


def test_amounts_of_time() -> None:
    assert [values.num_seconds("time", text) for text in ("", "45s", "90m", "2h", "1d")] == [
        0,
        45,
        5400,
        7200,
        86400,
    ]
    for text in ("2", "h", "0h", "-1h"):
        with pytest.raises(UserError, match="time="):
            values.num_seconds("time", text)

"""Leases: one writer, stale ones recognised, one successor, and a loser that ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from xling.core.output import lease
from xling.core.output.lease import HeldError, Holder, hold, holder_of, lease_path, pin, read_holder, unpin

HOLD = (
    "import sys, time; from pathlib import Path; from xling.core.output import lease\n"
    "lease.REFRESH_S = 0.2\n"
    "with lease.hold(Path(sys.argv[1]), 'the first'):\n"
    "    print('held', flush=True); time.sleep(float(sys.argv[2]))\n"
)


@contextmanager
def holding(out: Path, seconds: float = 60) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lease; it is killed at the end."""
    command = [sys.executable, "-c", HOLD, str(out), str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def test_the_second_learns_who_holds_it(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "model"
    with holding(out) as process:
        with pytest.raises(HeldError) as caught, hold(out, "the second"):
            pass
        text = str(caught.value)
        assert text.startswith(
            f"{out} is being written by the first (process {process.pid} on {socket.gethostname()}"
        )
        assert "fix: wait for it, end it, or choose another out=" in text
        assert holder_of(out) is not None
    assert holder_of(out) is None
    with hold(out, "the second"):  # the first was killed: its lease is stale at once
        assert os.getpid() == getattr(read_holder(lease_path(out)), "pid", 0)
    assert not lease_path(out).exists()


def test_a_process_killed_while_it_took_over_does_not_block_the_next(tmp_path: Path) -> None:
    path = lease_path(tmp_path / "m")
    gone = replace(Holder.this_process("first"), start=1)
    taker = replace(Holder.this_process("second"), start=1)
    path.write_text(json.dumps(asdict(gone)))
    claim = path.with_name(f"{path.name}.claim-{gone.token}")
    claim.write_text(json.dumps(asdict(taker)))
    with hold(tmp_path / "m", "third"):
        assert getattr(read_holder(path), "what", "") == "third"
    assert not list(tmp_path.iterdir())
    path.write_text(json.dumps(asdict(gone)))
    claim.write_text(json.dumps(asdict(Holder.this_process("a living one"))))
    with pytest.raises(HeldError), hold(tmp_path / "m", "fourth"):
        pass
    assert claim.exists()


def test_waiting_for_the_end(tmp_path: Path) -> None:
    with holding(tmp_path / "m", 1.0) as process, hold(tmp_path / "m", "the second", wait_s=20):
        assert process.wait(60) == 0


def test_waiting_looks_once_a_second_and_ends_on_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, pauses = [100.0], []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        now[0] += seconds

    with holding(tmp_path / "m"):
        monkeypatch.setattr(lease.time, "sleep", pause)
        monkeypatch.setattr(lease.time, "monotonic", lambda: now[0])
        with pytest.raises(HeldError), hold(tmp_path / "m", "the second", wait_s=2.5):
            pass
    assert pauses == [1.0, 1.0, 0.5]


def test_a_claim_is_not_taken_while_its_lease_has_a_new_holder(tmp_path: Path) -> None:
    """The loser of a takeover reads the stale lease, then the winner finishes: the loser must not replace it."""
    path = lease_path(tmp_path / "m")
    stale, winner, loser = (Holder.this_process(name) for name in ("stale", "winner", "loser"))
    path.write_text(json.dumps(asdict(winner)))
    temporary = tmp_path / "temporary"
    temporary.write_text(json.dumps(asdict(loser)))
    assert not lease._take_over(path, temporary, stale)
    assert read_holder(path) == winner and temporary.exists()
    path.write_text(json.dumps(asdict(stale)))
    assert lease._take_over(path, temporary, stale)
    assert read_holder(path) == loser and sorted(tmp_path.iterdir()) == [path]


def test_a_process_id_that_was_given_again_is_not_the_holder(tmp_path: Path) -> None:
    mine = Holder.this_process("old")
    lease_path(tmp_path / "m").write_text(json.dumps(asdict(replace(mine, start=mine.start - 5))))
    with hold(tmp_path / "m", "new"):
        pass


def foreign(out: Path, age_s: float, owner: str = "") -> Holder:
    holder = replace(Holder.this_process("far", owner), host="far", machine="far", job="17")
    path = lease_path(out)
    path.write_text(json.dumps(asdict(holder)))
    os.utime(path, (time.time() - age_s, time.time() - age_s))
    return holder


def test_the_lease_of_another_machine_lasts_while_it_is_refreshed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "m"
    foreign(out, lease.STALE_AFTER_S - 20)
    with pytest.raises(HeldError, match=r"far \(process \d+ on far, job 17, since "), hold(out, "here"):
        pass
    foreign(out, lease.STALE_AFTER_S + 20)
    with hold(out, "here"):
        pass
    foreign(out, lease.OWN_STALE_AFTER_S - 20, "run/step/part")
    monkeypatch.setenv(lease.OWNER_VARIABLE, "run/step/part")
    with pytest.raises(HeldError), hold(out, "its restart elsewhere"):
        pass
    foreign(out, lease.OWN_STALE_AFTER_S + 20, "run/step/part")
    with hold(out, "its restart elsewhere"):
        pass


def test_a_damaged_lease_is_left_alone_for_a_while(tmp_path: Path) -> None:
    path = lease_path(tmp_path / "m")
    path.write_text('{"host": "a"')
    with pytest.raises(HeldError, match="a damaged lease"), hold(tmp_path / "m", "x"):
        pass
    os.utime(path, (time.time() - 400, time.time() - 400))
    with hold(tmp_path / "m", "x"):
        pass


def test_who_loses_a_lease_ends(tmp_path: Path) -> None:
    path = lease_path(tmp_path / "m")
    with holding(tmp_path / "m") as process:
        path.write_text(json.dumps(asdict(Holder.this_process("the successor"))))
        assert process.wait(60) == lease.LEASE_LOST_EXIT_CODE
    assert getattr(read_holder(path), "what", "") == "the successor"


def test_of_many_that_find_a_stale_lease_one_takes_it(tmp_path: Path) -> None:
    """Eight processes at once, three times over. The one that has the lease keeps it until all others are refused."""
    code = (
        "import sys, time; from pathlib import Path; from xling.core.output import lease\n"
        "folder, name, end = Path(sys.argv[1]), sys.argv[2], time.monotonic() + 120\n"
        "def wait(pattern, count):\n"
        "    while len(list(folder.glob(pattern))) < count and time.monotonic() < end: time.sleep(0.0005)\n"
        "for number in range(3):\n"
        "    (folder / f'ready{number}-{name}').touch()\n"
        "    wait(f'go{number}', 1)\n"
        "    try:\n"
        "        with lease.hold(folder / f'm{number}', 'x'):\n"
        "            print('got', flush=True)\n"
        "            wait(f'refused{number}-*', 7)\n"
        "    except lease.HeldError:\n"
        "        print('refused', flush=True); (folder / f'refused{number}-{name}').touch()\n"
    )
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path), str(n)], stdout=subprocess.PIPE, text=True
        )
        for n in range(8)
    ]
    for number in range(3):
        mine = Holder.this_process("old")
        lease_path(tmp_path / f"m{number}").write_text(json.dumps(asdict(replace(mine, start=1))))
        while len(list(tmp_path.glob(f"ready{number}-*"))) < 8 and any(run.poll() is None for run in runs):
            time.sleep(0.01)
        (tmp_path / f"go{number}").touch()
    answers = [run.communicate()[0].splitlines() for run in runs]
    for number in range(3):
        assert sorted(lines[number] for lines in answers) == ["got"] + ["refused"] * 7
    assert [path.name for path in tmp_path.glob(".*")] == []


def test_a_pinned_output_is_held_until_the_file_is_there(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    pin(tmp_path / "m", "step s of run r", run / "outcome.json")
    pin(tmp_path / "m", "step s of run r", run / "outcome.json")  # again by the same: no error
    with (
        pytest.raises(HeldError, match=r"m is being written by step s of run r; fix"),
        hold(tmp_path / "m", "x"),
    ):
        pass
    with pytest.raises(HeldError):
        pin(tmp_path / "m", "another", tmp_path / "other" / "outcome.json")
    (run / "outcome.json").touch()
    with hold(tmp_path / "m", "x"):
        pass
    (run / "outcome.json").unlink()
    pin(tmp_path / "m", "step s of run r", run / "outcome.json")
    unpin(tmp_path / "m", run / "outcome.json")
    assert not lease_path(tmp_path / "m").exists()


def test_a_place_that_cannot_be_written_needs_no_lease(tmp_path: Path) -> None:
    with hold(Path("/proc/x/y"), "x"):
        pass
    with hold(tmp_path / "a" / "b" / "c", "x"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_stopped_process_keeps_its_lease(tmp_path: Path) -> None:
    with holding(tmp_path / "m") as process:
        os.kill(process.pid, signal.SIGSTOP)
        with pytest.raises(HeldError), hold(tmp_path / "m", "x"):
            pass


def test_a_claim_made_while_a_stale_one_is_removed_is_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim, rename = tmp_path / "claim", os.rename
    mine = Holder.this_process("made meanwhile")

    def late(source: Path, target: Path) -> None:
        claim.write_text(json.dumps(asdict(mine)))
        rename(source, target)

    claim.write_text(json.dumps(asdict(replace(Holder.this_process("gone"), start=1))))
    monkeypatch.setattr(lease.os, "rename", late)
    assert not lease._discard_stale(claim)
    assert read_holder(claim) == mine and list(tmp_path.iterdir()) == [claim]
    monkeypatch.undo()
    claim.write_text(json.dumps(asdict(replace(Holder.this_process("gone"), start=1))))
    assert lease._discard_stale(claim) and not list(tmp_path.iterdir())

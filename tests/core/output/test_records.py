"""Record files: torn lines cost themselves alone, and disk trouble is named."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from xling.core import signals
from xling.core.output.records import DiskError, append_line, read_lines, read_object


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(1, 60), rest=st.lists(st.integers(), max_size=3))
def test_a_line_torn_anywhere_costs_itself_alone(tmp_path: Path, cut: int, rest: list[int]) -> None:
    path = tmp_path / "x.jsonl"
    path.unlink(missing_ok=True)
    append_line(path, {"first": "é" * 5})
    whole = path.read_bytes()
    append_line(path, {"second": "ü" * 10})
    path.write_bytes(path.read_bytes()[: len(whole) + cut])
    torn = read_lines(path)
    assert torn[:1] == [{"first": "é" * 5}]
    for number in rest:
        append_line(path, {"n": number})
    assert read_lines(path) == [*torn, *({"n": number} for number in rest)]


def test_whole_lines_follow_each_other_without_a_gap(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    for number in range(3):
        append_line(path, {"n": number})
    assert path.read_bytes() == b'{"n": 0}\n{"n": 1}\n{"n": 2}\n'
    path.write_bytes(b'{"n": 0}\n{"n"')
    append_line(path, {"n": 2})
    assert path.read_bytes() == b'{"n": 0}\n{"n"\n{"n": 2}\n'


def test_what_is_no_object_is_skipped_and_named_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"a": 1}\n[1]\n\xff\xfe\nnull\n' + b"[" * 100_000 + b'\n\n{"b": 2}\n')
    assert read_lines(path) == [{"a": 1}, {"b": 2}]
    assert read_lines(path) == [{"a": 1}, {"b": 2}]
    assert capsys.readouterr().err.splitlines() == [
        f"xling: {path}: line {n} is damaged and was skipped" for n in (2, 3, 4, 5)
    ]


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b"[" * 100_000])
def test_a_damaged_object_counts_as_none(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.json").write_bytes(data)
    assert read_object(tmp_path / "x.json") == {}
    assert read_object(tmp_path / "none.json") == {}
    assert signals.read_heartbeat(tmp_path / "x.json") is None


@pytest.mark.parametrize("text", ['{"done": "x"}', '{"saved": null}', '{"time": []}', '{"more": 1}'])
def test_a_heartbeat_of_wrong_values_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "beat.json").write_text(text)
    assert signals.read_heartbeat(tmp_path / "beat.json") is None


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    append_line(path, {"a": 1})
    code = (
        "import resource, signal, sys; from pathlib import Path; from xling.core.output.records import *\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (12, 12))\n"
        "try: append_line(Path(sys.argv[1]), {'b': 'x' * 100})\n"
        "except DiskError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert "of 110 bytes were written; fix: free space" in done.stdout
    append_line(path, {"c": 3})
    assert read_lines(path) == [{"a": 1}, {"c": 3}]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    with pytest.raises(DiskError, match="No such file or directory"):
        append_line(tmp_path / "none" / "x", {})


def test_records_are_for_their_owner_alone(tmp_path: Path) -> None:
    append_line(tmp_path / "x.jsonl", {})
    assert (tmp_path / "x.jsonl").stat().st_mode & 0o077 == 0

"""zstd frames with long windows, and lines over the limit."""

import random

import pytest
import zstandard

from xling.core.errors import UserError
from xling.text.document import Ledger
from xling.text.files import compressed
from xling.text.files.compressed import CutLine, read_lines, split_lines


@pytest.mark.parametrize("window_log", [27, 28, 29, 30, 31])
def test_long_windows_are_read(tmp_path, window_log):
    lines = [f"line {i} {random.Random(i).random()}".encode() for i in range(1000)]
    settings = zstandard.ZstdCompressionParameters.from_level(1, window_log=window_log, enable_ldm=True)
    packer = zstandard.ZstdCompressor(compression_params=settings).compressobj()
    path = tmp_path / "a.zst"
    path.write_bytes(packer.compress(b"\n".join(lines)) + packer.flush())
    assert zstandard.get_frame_parameters(path.read_bytes()).window_size == 1 << window_log
    ledger = Ledger()
    assert list(read_lines(path, ledger)) == lines
    assert not ledger.notes
    assert not ledger.unaccounted_bytes()
    assert b"".join(compressed.read_whole_chunks(path)) == b"\n".join(lines)


def test_a_window_that_does_not_fit_the_memory_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(compressed, "_MEMORY_BYTES", 1 << 18)
    settings = zstandard.ZstdCompressionParameters.from_level(1, window_log=29)
    packer = zstandard.ZstdCompressor(compression_params=settings).compressobj()
    path = tmp_path / "a.zst"
    path.write_bytes(packer.compress(random.Random(1).randbytes(1 << 21)) + packer.flush())
    assert sum(map(len, compressed.read_whole_chunks(path))) == 1 << 21
    monkeypatch.setattr(compressed, "free_bytes", lambda: 1 << 18)
    with pytest.raises(UserError, match="more memory than is free"):
        list(compressed.read_whole_chunks(path))


def test_lines_over_the_limit_are_cut():
    chunks = [b"ab\ncd", b"e" * 50, b"e\n\nf", b"g" * 9, b"g" * 30]
    found = list(split_lines(chunks, 20))
    assert [isinstance(line, CutLine) for line in found] == [False, True, False, True]
    assert found[0] == b"ab"
    assert found[1].startswith(b"cd")
    assert list(split_lines([b"a\rb", b"c\r"], 20)) == [b"a", b"bc"]
    assert list(split_lines([b"a\r", b"\nb"], 20)) == [b"a\r", b"b"]


@pytest.mark.parametrize("number", [0, 14])
def test_frames_to_be_skipped_are_no_damage(tmp_path, number):
    skipped = bytes([0x50 + number]) + b"\x2a\x4d\x18" + (8).to_bytes(4, "little") + b"12345678"
    frames = [skipped + zstandard.compress(part) for part in (b"one\n", b"two\n")]
    (tmp_path / "a.zst").write_bytes(b"".join(frames) + skipped)
    ledger = Ledger()
    assert list(read_lines(tmp_path / "a.zst", ledger)) == [b"one", b"two"]
    assert not ledger.notes and not ledger.dropped


def test_a_frame_that_needs_a_dictionary_says_so(tmp_path):
    samples = [f"line {i} of a text that is long enough {i * i}".encode() for i in range(2000)]
    words = zstandard.train_dictionary(2000, samples)
    (tmp_path / "a.zst").write_bytes(zstandard.ZstdCompressor(dict_data=words).compress(b"line 5"))
    with pytest.raises(UserError, match=r"a dictionary .*zstd -d -D"):
        list(read_lines(tmp_path / "a.zst", Ledger()))

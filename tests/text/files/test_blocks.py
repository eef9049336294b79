"""Large shards are compared with the SHA-256 of their blocks while they are read, not before."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests import hostile
from tests.conftest import TINY
from xling import cli
from xling.core.errors import UserError
from xling.core.output import digests, manifest
from xling.text.files.shards import ShardWriter, open_shard

BLOCK, ITEMS = 4096, [np.arange(4, 804), np.arange(30, 9230), np.arange(7, 2007)]


def forget() -> None:
    digests._in_process.clear()
    digests._buckets.clear()


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A published shard of 24,000 bytes in six blocks, as it came from another machine."""
    monkeypatch.setenv(digests.CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(digests, "BLOCK_BYTES", BLOCK)
    with manifest.publish(tmp_path / "made", "binarize", {}) as made:
        (made.path / "en").mkdir()
        with ShardWriter(made.path / "en" / "train", 20_000) as writer:
            for item in ITEMS:
                writer.add(item)
            writer.close()
    shutil.copytree(tmp_path / "made", tmp_path / "out")
    forget()
    return tmp_path / "out"


def turn(path: Path, place: int) -> None:
    """Turn a bit of a file."""
    content = bytearray(path.read_bytes())
    content[place] ^= 4
    path.write_bytes(content)


def test_a_block_is_hashed_when_it_is_first_read(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bin_bytes = (out / "en" / "train.bin").stat().st_size
    before = digests.num_bytes_hashed
    manifest.verify(out)
    assert digests.num_bytes_hashed - before == sum(f["bytes"] for f in manifest.read(out).files.values()) - (
        bin_bytes
    )
    tokens = open_shard(out / "en" / "train").tokens
    assert len(tokens) == 12_000 and tokens.dtype == np.uint16
    assert tokens[800:10_000].tolist() == ITEMS[1].tolist()
    assert tokens[-3:].tolist() == [2004, 2005, 2006] and tokens[5:5].tolist() == []
    read = [bytes(tokens.is_good)[block] for block in range(6)]
    assert read == [1, 1, 1, 1, 1, 1]
    assert type(tokens[:3]) is np.ndarray
    assert int(tokens[11_999]) == 2006


@pytest.mark.parametrize("block", range(6))
def test_a_turned_bit_is_told_by_the_read_that_meets_it(out: Path, block: int) -> None:
    path = out / "en" / "train.bin"
    turn(path, min(block * BLOCK + 1000, 23_999))
    hostile.attempt()
    manifest.verify(out)  # nothing was read
    tokens = open_shard(out / "en" / "train").tokens
    for number in range(6):
        start = number * BLOCK // 2
        if number != block:
            assert tokens[start + 1 : start + 20].shape == (19,)
            continue
        with pytest.raises(UserError, match=rf"train\.bin was changed or damaged .* block {block} of"):
            tokens[start + 1 : start + 20]
    with pytest.raises(UserError, match=r"train\.bin was changed or damaged after 'binarize' wrote it"):
        manifest.verify(out, whole=True)
    assert not manifest.is_as_published(out)


@pytest.mark.parametrize("content", ["", "00\n" * 6, None])
def test_digests_of_blocks_that_are_not_those_written(out: Path, content: str | None) -> None:
    sums = out / "en" / "train.bin.sums"
    lines = sums.read_text().splitlines()
    sums.write_text(content if content is not None else "\n".join(lines[:-1]))
    with pytest.raises(UserError, match=r"train\.bin\.sums"):
        manifest.verify(out)
    with pytest.raises(UserError, match=r"train\.bin was changed or damaged"):
        open_shard(out / "en" / "train").tokens[-3:]


@pytest.mark.parametrize("mode", digests.MODES)
def test_each_mode_and_what_is_known(out: Path, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(digests.VERIFY_VARIABLE, mode)
    monkeypatch.setattr(digests, "_may_change_unseen", lambda facts, started_at: False)
    assert (type(open_shard(out / "en" / "train").tokens) is np.ndarray) is (mode == "never")
    manifest.verify(out, whole=True)
    forget()
    assert (type(open_shard(out / "en" / "train").tokens) is np.ndarray) is (mode != "always")
    forget()
    monkeypatch.setenv("RANK", "1")  # it reads other blocks than the first process of a training
    shutil.copytree(out, copy := out.with_name("copy"))
    assert (type(open_shard(copy / "en" / "train").tokens) is np.ndarray) is (mode == "never")
    turn(copy / "en" / "train.bin", 8)
    digests.of_file(copy / "en" / "train.bin")
    monkeypatch.setenv("RANK", "0")
    if mode == "once":  # the whole of it is known, and is another
        with pytest.raises(UserError, match=r"train\.bin was changed or damaged"):
            manifest.verify(copy)
    (copy / "manifest.json").unlink()  # the change is meant
    assert open_shard(copy / "en" / "train").tokens[4] == 12


@pytest.mark.parametrize("workers", [0, 1])
def test_a_training_ends_at_a_damaged_block_and_goes_on_with_a_good_copy(
    workers: int,
    shards: Path,
    vocab: Path,
    corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(digests, "BLOCK_BYTES", 1000)
    texts = [f"corpora.{lang}={corpus}/{lang}.txt" for lang in ("en", "ar")]
    assert cli.main(["binarize", f"vocab={vocab}", *texts, "out=made"]) == 0
    shutil.copytree("made", "here")
    path = Path("here/en/train.bin")
    whole, blocks = path.read_bytes(), digests.of_blocks(path)
    assert len(blocks) > 3
    turn(path, 2500)
    hostile.attempt()
    words = [
        "pretrain",
        "data=here",
        *TINY,
        "train.updates=30",
        "train.save_every=1",
        f"train.workers={workers}",
    ]
    assert cli.main([*words, "out=out"]) == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said and "here/en/train.bin was changed or damaged" in said, said
    assert said.splitlines()[-1].startswith("xling: here/en/train.bin") and "block 2 of" in said
    assert cli.main(["binarize", f"vocab={vocab}", *texts, "out=here"]) == 0  # made again, and told
    assert "here/en/train.bin was changed or damaged" in capsys.readouterr().err
    assert path.read_bytes() == whole
    assert cli.main([*words, "out=out"]) == 0

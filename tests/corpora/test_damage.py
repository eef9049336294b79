"""Five hundred damaged files: no traceback, every byte accounted for, every record beside the damage read."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests import hostile
from tests.corpora.damage import damaged_file, record, text_of
from xling.core.commands.runner import run_local
from xling.core.errors import UserError
from xling.core.settings import config
from xling.corpora.common.shards import read_corpus
from xling.corpora.mono import MonoConfig
from xling.corpora.sources.source import Context, open_source
from xling.text.document import Ledger

NUM_FILES = 500


def test_damaged_files_are_read_around_the_damage(tmp_path: Path) -> None:
    num_lost = 0
    for seed in range(NUM_FILES):
        hostile.attempt()
        file = damaged_file(seed)
        folder = tmp_path / str(seed)
        folder.mkdir()
        (folder / file.name).write_bytes(file.data)
        source = open_source(f"{file.scheme}:{folder}/{file.name}", Context(lang="sw"))
        ledger = Ledger()
        try:
            found = [doc.text for shard in source.shards() for doc in source.read(shard, ledger)]
        except UserError as error:  # so much damage that the file reads as another encoding
            assert file.name == "a.txt", seed
            assert "is not UTF-8; it is probably" in str(error), seed  # noqa: PT017 - most files raise nothing
            continue
        assert not ledger.unaccounted_bytes(), (seed, ledger.num_bytes)
        assert ledger.num_bytes["stored", "in"] == len(file.data)
        assert ledger.seen["read"] == len(found) + sum(ledger.dropped.values()), seed
        if missing := [text.partition("\n")[0] for text in file.intact if text not in found]:
            pytest.fail(f"seed {seed}: {missing} of {len(file.intact)} intact records not read; {ledger}")
        if file.name == "a.wet.gz" and file.intact:  # checksums let nothing else pass
            assert set(found) <= set(file.texts), seed
        num_lost += sum(n for (_, name), n in ledger.num_bytes.items() if name.startswith("lost"))
    assert num_lost > 100 * NUM_FILES, "the files are damaged"


@pytest.mark.parametrize("max_docs", [0, 2])
def test_a_corpus_of_damaged_files_says_what_was_lost(tmp_path: Path, max_docs: int) -> None:
    for number in range(3):
        members = [gzip.compress(record(text_of(number, i)), mtime=0) for i in range(12)]
        members[5] = members[5][:40] + b"\xff\xff\xff\xff" + members[5][44:]
        (tmp_path / f"{number}.wet.gz").write_bytes(b"".join(members))
    data = {"lang": "sw", "out": str(tmp_path / "out"), "source": f"wet:{tmp_path}/*.wet.gz"}
    data |= {"before_dedup": "repair", "after_dedup": "pii", "max_docs": max_docs}
    answer = run_local("corpus mono", config.from_dict(MonoConfig, data))
    stats = json.loads((tmp_path / "out" / "stats.json").read_text(encoding="utf-8"))
    num_bytes = stats["ledger"]["num_bytes"]
    assert num_bytes["stored\tin"] == sum(path.stat().st_size for path in tmp_path.glob("*.wet.gz"))
    for level in ("stored", "unpacked"):
        counts = {key: n for key, n in num_bytes.items() if key.startswith(level)}
        assert 2 * counts[f"{level}\tin"] == sum(counts.values())
    if max_docs:
        assert num_bytes["stored\tnot wanted"] + num_bytes["unpacked\tnot wanted"] > 0
    else:
        assert stats["ledger"]["dropped"]["read\tdamaged gzip member"] == 3
        assert len(list(read_corpus(tmp_path / "out"))) == 33
        lost = num_bytes["stored\tlost: damaged gzip member"]
        assert f"{lost:,} bytes of files could not be read: damaged gzip member" in answer


@pytest.mark.parametrize("lang", ["sw", "sw,fi"])
def test_a_corpus_of_a_file_that_is_not_whole_says_so(tmp_path: Path, lang: str) -> None:
    lines = [f"{text_of(1, i)}\n\n" for i in range(12)]
    content = gzip.compress("".join(lines).encode(), 0, mtime=0)
    (tmp_path / "a.txt.gz").write_bytes(content[: len(content) // 2])
    data = {"lang": lang, "out": str(tmp_path / "out"), "source": f"text:{tmp_path}/a.txt.gz"}
    data |= {"lm": {"model": "none"}} | ({} if "," in lang else {"after_dedup": "pii"})
    answer = run_local("corpus mono", config.from_dict(MonoConfig, data))
    assert "1 truncated gzip file: what is missing behind its end is not counted" in answer

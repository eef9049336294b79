"""Paragraph deduplication against a plain re-statement of its rules, over random shards."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xling.core.errors import UserError
from xling.corpora.stages import paragraphs
from xling.text.document import LONE, TITLED, Document, Ledger
from xling.text.normalize import for_dedup

Shards = list[list[list[str]]]


def documents(shard: list[list[str]], number: int) -> list[Document]:
    return [Document(id=f"{number}/{i}", text="\n".join(lines), form=TITLED) for i, lines in enumerate(shard)]


def run(shards: Shards, where: Path, num_ranges: int) -> tuple[list[list[str]], Ledger]:
    ledger = Ledger()
    folders = [where / str(n) for n in range(len(shards))]
    for number, shard in enumerate(shards):
        paragraphs.hash_shard(documents(shard, number), folders[number], num_ranges)
    found = [where / f"duplicates-{number}.u64" for number in range(num_ranges)]
    for number, file in enumerate(found):
        paragraphs.find_duplicates(folders, number, num_ranges, file)
    texts = []
    for number, shard in enumerate(shards):
        kept = paragraphs.drop_duplicates(documents(shard, number), folders[number], number, found, ledger)
        texts.append([doc.text for doc in kept])
    return texts, ledger


def reference(shards: Shards) -> list[list[str]]:
    """The rules one at a time, with a set of everything; documents with U+FFFD come after all others."""
    before: set[str] = set()
    kept_docs: dict[tuple[int, int], str] = {}
    docs = [(number, i, lines) for number, shard in enumerate(shards) for i, lines in enumerate(shard)]
    for number, i, lines in sorted(docs, key=lambda doc: any("\ufffd" in line for line in doc[2])):
        seen: set[str] = set()
        kept = []
        title = lines[: len(lines) > 1]
        for line in lines[len(title) :]:
            key = for_dedup(line)
            if key not in before and key not in seen:
                kept.append(line)
            seen.add(key)
        before |= seen
        if kept:
            kept_docs[number, i] = "\n".join([*title, *kept])
    return [[text for key, text in sorted(kept_docs.items()) if key[0] == n] for n in range(len(shards))]


LINE = st.sampled_from(
    ["a", "A", "\ufffdd", "b", "1", "2", "c…", "c", "d", "é", "Σας", "q", "r", "s", "t"]
) | st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=3)
SHARDS = st.lists(st.lists(st.lists(LINE, min_size=1, max_size=6), max_size=5), min_size=1, max_size=4)


@settings(max_examples=100, deadline=None)
@given(shards=SHARDS, num_ranges=st.sampled_from([1, 3, 8]))
def test_equals_the_rules(shards: Shards, num_ranges: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    texts, ledger = run(shards, tmp_path_factory.mktemp("dedup"), num_ranges)
    assert texts == reference(shards)

    # The ledger balances, in documents and in characters.
    kept = [text for shard in texts for text in shard]
    whole = [key for key in ledger.dropped if key[1] not in paragraphs.PARTIAL_REASONS]
    assert ledger.seen[paragraphs.STAGE] == len(kept) + sum(ledger.dropped[key] for key in whole)
    assert ledger.seen_chars[paragraphs.STAGE] == sum(map(len, kept)) + sum(ledger.dropped_chars.values())

    # What survived survives again, untouched.
    again = [[text.split("\n") for text in shard] for shard in texts]
    assert run(again, tmp_path_factory.mktemp("again"), num_ranges)[0] == texts

    # A second copy of everything adds nothing and takes nothing.
    twice = run([*shards, *shards], tmp_path_factory.mktemp("twice"), num_ranges)[0]
    assert twice == [*texts, *([] for _ in shards)]


def test_key_is_the_head_of_sha1() -> None:
    lines = ["Hello, World 12", "", "ÀÉ «x»"]
    expected = [
        int.from_bytes(hashlib.sha1(for_dedup(line).encode()).digest()[:8], "little") for line in lines
    ]
    assert paragraphs.keys_of("\n".join(lines)).tolist() == expected


def test_reasons_and_title(tmp_path: Path) -> None:
    shards = [
        [["Menu", "Home", "only here", "only here"], ["Menu", "HOME"]],
        [["Home", "Menu", "another text 2024"], ["x", "another text 1999"]],
    ]
    texts, _ = run(shards, tmp_path, 2)
    # "Menu" is a title twice, hence never compared; as a paragraph it occurs once.
    assert texts == [["Menu\nHome\nonly here"], ["Home\nMenu\nanother text 2024"]]


def test_without_a_title_every_line_is_compared(tmp_path: Path) -> None:
    texts = ["one\ntwo", "two", "three\none", "three", "four"]
    docs = [Document(str(i), text) for i, text in enumerate(texts)] + [Document("5", "four", form=LONE)]
    paragraphs.hash_shard(docs, tmp_path / "0", 1)
    paragraphs.find_duplicates([tmp_path / "0"], 0, 1, tmp_path / "dup")
    ledger = Ledger()
    kept = paragraphs.drop_duplicates(docs, tmp_path / "0", 0, [tmp_path / "dup"], ledger)
    assert [doc.text for doc in kept] == ["one\ntwo", "three", "four", "four"]
    assert ledger.dropped == {
        ("paragraph_dedup", "duplicate_paragraphs"): 1,
        ("paragraph_dedup", "no_paragraph_left"): 2,
    }
    assert sum(ledger.dropped_chars.values()) == len("two") + len("\none") + len("three")


def test_of_a_damaged_text_and_its_whole_copy_the_whole_one_stays(tmp_path: Path) -> None:
    damaged, whole = ["t", "na\ufffdve", "the same line"], ["t", "naive", "the same line"]
    for number, shards in enumerate([[[damaged, whole]], [[damaged], [whole]], [[whole], [damaged]]]):
        texts, _ = run(shards, tmp_path / str(number), 2)
        assert sorted(text for shard in texts for text in shard) == [
            "t\nnaive\nthe same line",
            "t\nna\ufffdve",
        ]


def test_partial_losses_are_counted(tmp_path: Path) -> None:
    shards = [
        [["Menu", "Home", "only here", "only here"], ["Menu", "HOME"]],
        [["Home", "Menu", "another text 2024"], ["x", "another text 1999"]],
    ]
    _, ledger = run(shards, tmp_path, 2)
    assert ledger.dropped == {
        ("paragraph_dedup", "duplicate_paragraphs"): 2,
        ("paragraph_dedup", "repeated_paragraphs"): 1,
        ("paragraph_dedup", "no_paragraph_left"): 2,
    }
    assert ledger.notes["duplicate_paragraphs"] == 2
    assert ledger.samples["paragraph_dedup", "duplicate_paragraphs"][0] == ("0/1", "\nHOME")


def test_spilling_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    shard = [[f"line {chr(97 + x)}" for x in rng.integers(0, 26, size=9)] for _ in range(40)]
    whole = run([shard, shard[:3]], tmp_path / "whole", 3)[0]
    monkeypatch.setattr(paragraphs, "_SPILL_KEYS", 20)
    monkeypatch.setattr(paragraphs, "_BATCH_CHARS", 50)
    assert run([shard, shard[:3]], tmp_path / "spilled", 3)[0] == whole


def test_other_documents_are_refused(tmp_path: Path) -> None:
    shard = [["t", "one", "two"], ["t", "three"]]
    paragraphs.hash_shard(documents(shard, 0), tmp_path / "0", 1)
    paragraphs.find_duplicates([tmp_path / "0"], 0, 1, tmp_path / "dup")
    for other in (
        [*shard, ["t", "four"]],
        shard[:1],
        [["t", "two", "one"], shard[1]],
        [["t", "one"], shard[1]],
    ):
        with pytest.raises(UserError, match="not those hashed"):
            list(
                paragraphs.drop_duplicates(
                    documents(other, 0), tmp_path / "0", 0, [tmp_path / "dup"], Ledger()
                )
            )


def test_hashes_appear_whole_or_not_at_all(tmp_path: Path) -> None:
    def broken() -> object:
        yield Document(id="0/0", text="t\none", form=TITLED)
        raise OSError("the source ends")

    with pytest.raises(OSError, match="the source ends"):
        paragraphs.hash_shard(broken(), tmp_path / "0", 1)  # type: ignore[arg-type]
    assert not (tmp_path / "0").exists()
    paragraphs.hash_shard(documents([["t", "one"]], 0), tmp_path / "0", 1)
    assert len(np.fromfile(tmp_path / "0" / paragraphs.KEYS_FILE, dtype="<u8")) == 1


def test_an_empty_shard(tmp_path: Path) -> None:
    assert run([[], [["t", "a"]]], tmp_path, 4)[0] == [[], ["t\na"]]


def cost(folder: Path, num_shards: int, num_ranges: int, docs_per_shard: int) -> tuple[int, int]:
    """Files and bytes that all three steps read or write for shards of which half is in every shard."""
    shards = [
        [
            ["t", *(f"own {n} {i} {k}".translate(LETTERS) for k in range(10)), *shared(i)]
            for i in range(docs_per_shard)
        ]
        for n in range(num_shards)
    ]
    counted: dict[Path, int] = {}
    fromfile = np.fromfile

    def counting(file: object, *args: object, **kwargs: object) -> object:
        values = fromfile(file, *args, **kwargs)  # type: ignore[call-overload]
        path = Path(getattr(file, "name", file))  # type: ignore[arg-type]
        counted[path] = counted.get(path, 0) + values.nbytes
        return values

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(np, "fromfile", counting)
        run(shards, folder, num_ranges)
    files = [path for path in folder.rglob("*") if path.is_file()]
    return len(files), sum(path.stat().st_size for path in files) + sum(counted.values())


LETTERS = str.maketrans("0123456789", "abcdefghij")  # digits are not compared


def shared(number: int) -> list[str]:
    return [f"shared {number} {k}".translate(LETTERS) for k in range(10)]


def test_files_and_bytes_are_linear_in_the_input(tmp_path: Path) -> None:
    # Twice the shards at the same number of documents: hardly more bytes. Twice the documents: twice the bytes.
    few, many = cost(tmp_path / "a", 8, 8, 100), cost(tmp_path / "b", 16, 16, 50)
    large, larger = cost(tmp_path / "c", 16, 8, 100), cost(tmp_path / "d", 64, 32, 100)
    assert many[1] < 1.1 * few[1]
    assert large[1] < 2.1 * few[1]
    assert larger[1] < 8.6 * few[1]
    assert (few[0], many[0], large[0], larger[0]) == (8 * 5, 16 * 5, 16 * 4 + 8, 64 * 4 + 32)

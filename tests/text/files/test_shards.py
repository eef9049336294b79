"""The memory-mapped format: what goes in comes out, here and in fairseq."""

from __future__ import annotations

import os
import struct
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xling.core.errors import UserError
from xling.core.output import manifest
from xling.corpora import binarize
from xling.text import vocab as vocabulary
from xling.text.files import corpus_reader
from xling.text.files.shards import (
    EOS,
    UNK,
    ShardWriter,
    encode_lines,
    list_languages,
    list_pairs,
    open_shard,
)

SMALL, LARGE = 1000, 250_000  # vocabulary sizes that fit uint16 and do not


def write(prefix: Path, items: list[list[int]], vocab_size: int) -> dict[str, int]:
    with ShardWriter(prefix, vocab_size) as writer:
        for item in items:
            writer.add(np.array(item, dtype=np.int64))
        return writer.close()


def items_for(size: int) -> st.SearchStrategy[list[list[int]]]:
    return st.lists(st.lists(st.integers(0, size - 1), max_size=30), max_size=20)


@pytest.mark.parametrize(("size", "dtype"), [(SMALL, np.uint16), (LARGE, np.int32)])
@given(data=st.data())
@settings(max_examples=40)
def test_what_goes_in_comes_out_here_and_in_fairseq(
    tmp_path: Path, size: int, dtype: type, data: st.DataObject
) -> None:
    from fairseq.data.indexed_dataset import MMapIndexedDataset

    items = data.draw(items_for(size))
    counts = write(tmp_path / "train", items, size)
    shard = open_shard(tmp_path / "train")
    assert shard.tokens.dtype == dtype and shard.sizes.dtype == np.int32
    assert shard.tokens.tolist() == [token for item in items for token in item]
    assert shard.sizes.tolist() == [len(item) for item in items]
    starts = shard.starts()
    assert [shard.tokens[s : s + n].tolist() for s, n in zip(starts, shard.sizes, strict=True)] == items
    unknown = sum(item.count(UNK) for item in items)
    assert counts == {"items": len(items), "tokens": len(shard.tokens), "unknown": unknown}
    if shard.tokens.size:  # fairseq cannot map an empty file
        theirs = MMapIndexedDataset(str(tmp_path / "train"))
        assert len(theirs) == len(items)
        assert [theirs[i].tolist() for i in range(len(theirs))] == items
        assert theirs.sizes.tolist() == shard.sizes.tolist()


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_what_fairseq_writes_is_read(tmp_path: Path, size: int) -> None:
    import torch
    from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder

    items = [[5, 6, 7, 2], [2], [size - 1, 2]]
    builder = MMapIndexedDatasetBuilder(
        str(tmp_path / "x.bin"), dtype=np.uint16 if size == SMALL else np.int32
    )
    for item in items:
        builder.add_item(torch.tensor(item))
    builder.finalize(str(tmp_path / "x.idx"))
    write(tmp_path / "ours", items, size)
    for ending in ("bin", "idx"):
        assert (tmp_path / f"x.{ending}").read_bytes() == (tmp_path / f"ours.{ending}").read_bytes()
    assert open_shard(tmp_path / "x").tokens.tolist() == [token for item in items for token in item]


def damaged(folder: Path, which: str, content: bytes | int) -> Path:
    write(folder / "train", [[5, 6, 2], [7, 2]], SMALL)
    path = folder / f"train.{which}"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        os.truncate(path, path.stat().st_size + content)
    return folder / "train"


@pytest.mark.parametrize(
    ("which", "content", "message"),
    [
        ("bin", -1, r"train.bin has 9 bytes; valid: 10"),
        ("bin", 2, r"train.bin has 12 bytes; valid: 10"),
        ("bin", b"", r"train.bin has 0 bytes; valid: 10"),
        ("idx", -1, r"train.idx is cut off; valid: 2 items"),
        ("idx", b"", r"train.idx is not a fairseq memory-mapped index"),
        ("idx", b"MMIDIDX\x00\x00", r"train.idx is not a fairseq memory-mapped index"),
        (
            "idx",
            b"something else entirely, but long enough",
            r"train.idx is not a fairseq memory-mapped index",
        ),
        ("idx", b"MMIDIDX\x00\x00" + struct.pack("<QBQ", 2, 8, 0), r"version 2, type 8; valid: version 1"),
        ("idx", b"MMIDIDX\x00\x00" + struct.pack("<QBQ", 1, 99, 0), r"version 1, type 99"),
        ("idx", b"MMIDIDX\x00\x00" + struct.pack("<QBQ", 1, 8, 1 << 40), r"train.idx is cut off"),
    ],
)
def test_damaged_shards_are_user_errors(
    tmp_path: Path, which: str, content: bytes | int, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        open_shard(damaged(tmp_path, which, content))


@pytest.mark.parametrize("which", ["bin", "idx"])
def test_a_missing_half_is_a_user_error(tmp_path: Path, which: str) -> None:
    prefix = damaged(tmp_path, which, 0)
    prefix.with_name(f"train.{which}").unlink()
    with pytest.raises(UserError, match=rf"train.{which} is missing.*run `xling binarize` again"):
        open_shard(prefix)


@pytest.mark.parametrize("lang", ["en", "ar", "th"])
def test_every_piece_of_text_is_in_train_or_valid_once(
    corpus: Path, vocab: Path, shards: Path, lang: str
) -> None:
    processor = vocabulary.load_processor(vocab)
    texts: list[list[str]] = []
    for split in ("train", "valid"):
        shard = open_shard(shards / lang / split)
        found: list[list[str]] = [[]]
        for start, size in zip(shard.starts(), shard.sizes, strict=True):
            item = shard.tokens[start : start + size].tolist()
            assert item[-1] == EOS and EOS not in item[:-1]
            if size == 1:
                found.append([])
            else:
                found[-1].append(processor.decode([piece - 1 for piece in item[:-1]]))
        assert found.pop() == []  # every document ends with an item of </s> alone
        texts += found
    documents = corpus_reader.read_documents([str(corpus / f"{lang}.txt")])
    wanted = [[unicodedata.normalize("NFC", line) for line in document] for document in documents]
    assert sorted(texts) == sorted(wanted)
    counts = manifest.read(shards).counts[lang]
    assert counts["valid"]["items"] > 0 and counts["train"]["unknown"] == 0


def test_pieces_are_numbered_as_fairseq_numbers_them(vocab: Path) -> None:
    from fairseq.data import Dictionary

    dictionary = Dictionary.load(str(vocab / "dict.txt"))
    processor = vocabulary.load_processor(vocab)
    for text in ("The teacher sells fresh bread.", "المعلمة تبيع خبزا طازجا", "ครูขายขนมปังสด", "Ω the"):
        ids = encode_lines(processor, [text])[0]
        pieces = processor.encode(text, out_type=str)
        assert [dictionary[i] for i in ids[:-1] if i != UNK] == [p for p in pieces if p in dictionary]
        assert ids[-1] == dictionary.eos() and ids.dtype == np.int32
    assert UNK in encode_lines(processor, ["Ω"])[0]


def test_pairs_stay_aligned_and_empty_lines_are_counted(tmp_path: Path, vocab: Path) -> None:
    src = [f"the teacher sells {n} books" for n in range(30)]
    tgt = [f"the doctor finds {n} books" for n in range(30)]
    src[3], tgt[7] = "", "  "
    (tmp_path / "a").write_text("\n".join(src) + "\n")
    (tmp_path / "b").write_text("\n".join(tgt) + "\n")
    out = tmp_path / "out"
    pairs = {"en-sw": (str(tmp_path / "a"), str(tmp_path / "b"))}
    made = binarize.run(binarize.BinarizeConfig(vocab=str(vocab), out=str(out), pairs=pairs, valid_docs=3))
    assert made.counts["en-sw"]["dropped_empty"] == 2
    assert list_pairs(out) == ["en-sw"] and list_languages(out) == []
    seen = []
    for split in ("train", "valid"):
        sides = [open_shard(out / "en-sw" / f"{split}.en-sw.{side}") for side in ("en", "sw")]
        items = [
            [s.tokens[b : b + n].tolist() for b, n in zip(s.starts(), s.sizes, strict=True)] for s in sides
        ]
        seen += list(zip(*items, strict=True))
        assert split == "train" or 1 <= len(items[0]) <= 3
    processor = vocabulary.load_processor(vocab)
    wanted = [
        (encode_lines(processor, [a])[0].tolist(), encode_lines(processor, [b])[0].tolist())
        for a, b in zip(src, tgt, strict=True)
        if a.strip() and b.strip()
    ]
    assert sorted(seen) == sorted(wanted)


def test_the_first_pairs_are_taken_and_the_same_are_held_out(tmp_path: Path, vocab: Path) -> None:
    for side in "ab":
        (tmp_path / side).write_text("".join(f"{i} boat\n" for i in range(20)), encoding="utf-8")
    pairs = {"en-sw": (str(tmp_path / "a"), str(tmp_path / "b"))}
    sets = {}
    for num in (0, 5, 99):
        out = tmp_path / str(num)
        binarize.run(binarize.BinarizeConfig(str(vocab), str(out), pairs=pairs, valid_docs=2, max_pairs=num))
        for split in ("train", "valid"):
            shard = open_shard(out / "en-sw" / f"{split}.en-sw.sw")
            starts = shard.starts()
            sets[num, split] = [
                shard.tokens[s : s + n].tolist() for s, n in zip(starts, shard.sizes, strict=True)
            ]
    assert sets[0, "valid"] == sets[5, "valid"] == sets[99, "valid"] and len(sets[0, "valid"]) == 2
    assert len(sets[0, "train"]) == 18 and sets[99, "train"] == sets[0, "train"]
    assert sets[5, "train"] == sets[0, "train"][:5]
    with pytest.raises(UserError, match="max_pairs=-1"):
        binarize.run(binarize.BinarizeConfig(str(vocab), str(tmp_path / "x"), pairs=pairs, max_pairs=-1))
    with pytest.raises(UserError, match="valid_docs=-1"):
        binarize.run(binarize.BinarizeConfig(str(vocab), str(tmp_path / "x"), pairs=pairs, valid_docs=-1))


def test_directories_of_parallel_and_switched_text_stand_for_their_files(tmp_path: Path, vocab: Path) -> None:
    rows = {"train.en": "A cat.\n", "train.sw": "Paka.\n", "train.txt": "A paka\n", "train.langs": "en sw\n"}
    (tmp_path / "made").mkdir()
    for name, text in rows.items():
        (tmp_path / "made" / name).write_text(text, encoding="utf-8")
    (tmp_path / "made" / "other.txt").write_text("not this\n", encoding="utf-8")
    made = {
        out: binarize.run(
            binarize.BinarizeConfig(
                vocab=str(vocab),
                out=str(tmp_path / out),
                pairs={"en-sw": pairs},
                switched={"en-sw": switched},
            )
        ).files
        for out, pairs, switched in (
            ("a", (f"{tmp_path}/made",), (f"{tmp_path}/made",)),
            (
                "b",
                tuple(f"{tmp_path}/made/{name}" for name in ("train.en", "train.sw")),
                tuple(f"{tmp_path}/made/{name}" for name in ("train.txt", "train.langs")),
            ),
        )
    }
    assert made["a"] == made["b"] and len(made["a"]) > 8


def test_binarising_twice_gives_the_same_bytes(tmp_path: Path, corpus: Path, vocab: Path) -> None:
    made = []
    for name in ("a", "b"):
        out = tmp_path / name
        corpora = {"th": (str(corpus / "th.txt"),)}
        binarize.run(binarize.BinarizeConfig(vocab=str(vocab), out=str(out), corpora=corpora))
        made.append({p.name: p.read_bytes() for p in (out / "th").iterdir()})
    assert made[0] == made[1] and set(made[0]) == {"train.bin", "train.idx", "valid.bin", "valid.idx"}


def test_listing_finds_languages_and_pairs(shards: Path, tmp_path: Path) -> None:
    assert list_languages(shards) == ["ar", "en", "th"] and list_pairs(shards) == []
    assert list_languages(tmp_path) == []
    for name in (
        "sw/train.idx",
        "de/valid.idx",
        "fr/train.bin",
        "en-sw/train.en-sw.en.idx",
        "en-sw/valid.x.idx",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    # What has only a validation set, or half a shard, is no training data.
    assert list_languages(tmp_path) == ["sw"] and list_pairs(tmp_path) == ["en-sw"]

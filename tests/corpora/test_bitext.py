import json
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xling.core.commands.runner import run_local
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.corpora.bitext import evidence
from xling.corpora.bitext.documents import DocumentText, pairs_by_name, pairs_by_vectors, read
from xling.corpora.bitext.sentence_alignment import BEAD_SHAPES, DocumentSide, align
from xling.corpora.bitext.stage import BitextConfig
from xling.corpora.toyworld import para


def ranges(beads):
    return {(bead.src, bead.tgt) for bead in beads}


def recut(texts, draw, merge=0.12, drop=0.1):
    """Sentences with some left out and some joined to the one before: (text, numbers)."""
    found = []
    for number, text in enumerate(texts):
        if draw.random() < drop:
            continue
        if found and draw.random() < merge:
            found[-1] = (f"{found[-1][0]} {text}", found[-1][1] | {number})
        else:
            found.append((text, {number}))
    return found


def gold(src, tgt):
    """Beads of two recut documents: groups that share numbers."""
    found, i, j = set(), 0, 0
    while i < len(src) and j < len(tgt):
        a, b = i + 1, j + 1
        left, right = set(src[i][1]), set(tgt[j][1])
        if not left & right:
            i, j = (a, j) if max(left) < max(right) else (i, b)
            continue
        while True:
            if a < len(src) and src[a][1] & right:
                left, a = left | src[a][1], a + 1
            elif b < len(tgt) and tgt[b][1] & left:
                right, b = right | tgt[b][1], b + 1
            else:
                break
        found.add(((i, a), (j, b)))
        i, j = a, b
    return found


def f1(found, right):
    return 2 * len(found & right) / (len(found) + len(right))


@pytest.fixture(scope="module")
def documents():
    """Six recut documents of the toy world in English and German, and their beads."""
    pairs = list(para("en", "de", 420, 3))
    draw = random.Random(5)
    made = []
    for start in range(0, 420, 70):
        sides = [recut([pair[k] for pair in pairs[start : start + 70]], draw) for k in (0, 1)]
        made.append((*([text for text, _ in side] for side in sides), gold(*sides)))
    return made


def test_merged_and_dropped_sentences_are_found(documents):
    beads = evidence.align_documents([d[0] for d in documents], [d[1] for d in documents])
    found = {(n, *pair) for n, row in enumerate(beads) for pair in ranges(row)}
    right = {(n, *pair) for n, d in enumerate(documents) for pair in d[2]}
    assert f1(found, right) > 0.93
    # Equal scores for all would say nothing: right pairs score higher than wrong ones.
    scores = [(b.score, (n, b.src, b.tgt) in right) for n, row in enumerate(beads) for b in row]
    assert np.mean([s for s, ok in scores if ok]) > np.mean([s for s, ok in scores if not ok] or [0])


def test_lengths_alone_find_merged_sentences():
    draw = random.Random(2)
    lengths = [draw.randint(15, 160) for _ in range(80)]
    src = recut(["x" * n for n in lengths], draw, merge=0.1, drop=0.0)
    tgt = recut(["y" * round(n * draw.uniform(0.95, 1.05)) for n in lengths], draw, merge=0.1, drop=0.0)
    sides = evidence.scaled_lengths([s for s, _ in src], [t for t, _ in tgt])
    found = ranges(align(DocumentSide(sides[0]), DocumentSide(sides[1])))
    assert f1(found, gold(src, tgt)) > 0.9


def test_dense_vectors_are_aligned_and_long_documents_in_windows(monkeypatch):
    draw = np.random.default_rng(0)
    meaning = draw.standard_normal((150, 64)).astype(np.float32)
    kept = [i for i in range(150) if i % 11]
    src = meaning + 0.3 * draw.standard_normal(meaning.shape).astype(np.float32)
    tgt = meaning[kept] + 0.3 * draw.standard_normal((len(kept), 64)).astype(np.float32)
    src, tgt = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in (src, tgt))
    right = {((i, i + 1), (j, j + 1)) for j, i in enumerate(kept)}
    sides = [DocumentSide(np.full(len(side), 50, np.float32), side) for side in (src, tgt)]
    whole = align(*sides, (0.0, 0.8))
    assert ranges(whole) == right
    monkeypatch.setattr("xling.corpora.bitext.sentence_alignment.WINDOW_SENTENCES", 40)
    assert ranges(align(*sides, (0.0, 0.8))) == right


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 200), max_size=12), st.lists(st.integers(1, 200), max_size=12), st.integers(0, 9)
)
def test_beads_are_in_order_disjoint_and_of_known_shapes(left, right, seed):
    draw = np.random.default_rng(seed)
    for dim in (0, 8):
        vectors = [
            draw.standard_normal((len(side), dim)).astype(np.float32) if dim else None
            for side in (left, right)
        ]
        beads = align(
            *(DocumentSide(np.array(n, np.float32), v) for n, v in zip((left, right), vectors, strict=True))
        )
        before = (0, 0)
        for bead in beads:
            assert (bead.src[1] - bead.src[0], bead.tgt[1] - bead.tgt[0]) in BEAD_SHAPES
            assert bead.src[0] >= before[0] and bead.tgt[0] >= before[1]
            assert bead.src[1] <= len(left) and bead.tgt[1] <= len(right)
            before = bead.src[1], bead.tgt[1]


def test_names_that_differ_in_the_language_alone_are_paired():
    src = [
        DocumentText(name, ("x",))
        for name in ("a/en/news.html", "b.en.txt", "c.en.txt", "https://x.org/eng/q?lang=en")
    ]
    tgt = [
        DocumentText(name, ("x",))
        for name in ("b.sw.txt", "a/sw/news.html", "d.sw.txt", "https://x.org/swa/q?lang=sw")
    ]
    assert pairs_by_name(src, tgt, ("en", "sw")) == [(0, 1), (1, 0), (3, 3)]
    twice = [*tgt, DocumentText("b_swahili.txt", ("x",))]
    assert (1, 0) not in pairs_by_name(src, twice, ("en", "sw")), "a name that is not unique pairs nothing"


def test_documents_are_paired_by_vectors():
    draw = np.random.default_rng(1)
    meaning = draw.standard_normal((20, 32))
    src, tgt = meaning, meaning[::-1] + 0.4 * draw.standard_normal((20, 32))
    src, tgt = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in (src[:15], tgt))
    assert {(i, j) for i, j, _ in pairs_by_vectors(src, tgt)} == {(i, 19 - i) for i in range(15)}


def write(folder, documents, lang, side):
    (folder / lang).mkdir()
    for number, document in enumerate(documents):
        (folder / lang / f"page{number}.txt").write_text("\n".join(document[side]), encoding="utf-8")
    return str(folder / lang)


def test_the_command_publishes_pairs_that_the_next_one_reads(documents, tmp_path):
    src, tgt = (write(tmp_path, documents, lang, side) for side, lang in enumerate(("en", "de")))
    cfg = BitextConfig("en-de", (src,), (tgt,), out=str(tmp_path / "out"), split=False)
    run_local("corpus bitext", cfg)
    rows = [line.split("\t") for line in (tmp_path / "out" / "pairs.tsv").read_text().splitlines()]
    assert rows[0] == ["en", "de", "score", "doc", "src_sentences", "tgt_sentences"]
    counts = manifest.verify(tmp_path / "out").counts
    assert counts["pairs"] == len(rows) - 1 > 250
    assert counts["paired_documents"] == counts["src_documents"] == counts["tgt_documents"] == 6
    told = [counts[f"{side}_sentences"] for side in ("src", "tgt")]
    assert told == [sum(len(d[side]) for d in documents) for side in (0, 1)] and told[0] != told[1]
    right = {(f"page{n}.txt", *pair) for n, d in enumerate(documents) for pair in d[2]}
    place = [tuple(int(n) for n in field.split("-")) for row in rows[1:] for field in row[4:]]
    found = {
        (row[3], (a[0] - 1, a[1]), (b[0] - 1, b[1]))
        for row, a, b in zip(rows[1:], place[::2], place[1::2], strict=True)
    }
    assert f1(found, right) > 0.93
    assert "up to date" in (said := run_local("corpus bitext", cfg)) and "less than half" not in str(said)
    strict = BitextConfig("en-de", (src,), (tgt,), out=str(tmp_path / "strict"), split=False, threshold=9)
    said, again = (str(run_local("corpus bitext", strict)) for _ in range(2))
    for told in (said, again):
        assert (
            f"less than half was kept: 0 of {min(counts['src_sentences'], counts['tgt_sentences'])}" in told
        )
        assert "pairs under the threshold" in told and "setting: threshold=" in told


def test_rows_of_json_lines_are_documents(documents, tmp_path):
    names = []
    for side, lang in enumerate(("en", "de")):
        path = tmp_path / f"{lang}.jsonl"
        rows = [{"url": f"http://x.org/{n}", "text": "\n".join(d[side])} for n, d in enumerate(documents)]
        draw = random.Random(side)
        draw.shuffle(rows)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        names.append(str(path))
    cfg = BitextConfig(
        "en-de", (names[0],), (names[1],), out=str(tmp_path / "out"), pairing="names", split=False
    )
    run_local("corpus bitext", cfg)
    table = [line.split("\t") for line in (tmp_path / "out" / "documents.tsv").read_text().splitlines()]
    assert len(table) == 7
    assert all(row[0] == row[1] and row[2] == "name" for row in table[1:])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"src": ("nowhere",)}, "nothing to read at 'nowhere'"),
        ({"src": ()}, "src= is empty"),
        ({"method": "encoder"}, "method=encoder checkpoint=DIRECTORY"),
        ({"checkpoint": "x"}, "method=encoder checkpoint=DIRECTORY"),
        ({"threshold": float("nan")}, "threshold=nan"),
    ],
)
def test_mistakes_are_told(tmp_path, changes, message):
    for name in ("a", "b"):
        (tmp_path / name).write_text("A line.\n")
    given = {"src": (str(tmp_path / "a"),), "tgt": (str(tmp_path / "b"),), "out": str(tmp_path / "out")}
    with pytest.raises(UserError, match=message):
        run_local("corpus bitext", BitextConfig("en-de", **(given | changes)))
    assert not (tmp_path / "out").exists()


def test_files_without_documents_are_told(tmp_path):
    good, empty = tmp_path / "a.txt", tmp_path / "empty"
    good.write_text("A line.\n")
    empty.mkdir()
    bad = {"b.jsonl": "no json\n", "c.jsonl": '{"x": 1}\n', "d.parquet": "PAR", "e.txt": " \n"}
    for name, text in bad.items():
        (tmp_path / name).write_text(text)
        with pytest.raises(UserError):
            read([str(tmp_path / name)], True)
    with pytest.raises(UserError, match="empty folder"):
        read([str(empty)], True)
    two = tmp_path / "two"
    two.mkdir()
    for name in "xy":
        (two / name).write_text(f"Nothing alike {name}.\n")
    cfg = BitextConfig("en-de", (str(good),), (str(two),), out=str(tmp_path / "out"), pairing="names")
    with pytest.raises(UserError, match="belong together"):
        run_local("corpus bitext", cfg)

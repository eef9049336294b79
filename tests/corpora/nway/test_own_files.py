"""Own aligned files: layouts give the same rows, what is not read is told, held-out rows are not trained on."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from xling.core.errors import UserError
from xling.core.output import manifest
from xling.corpora.nway import build, own_files, sources
from xling.corpora.nway.build import NwayConfig
from xling.text.files.nway import open_rows, read_words
from xling.text.files.shards import ShardWriter, encode_lines

SW, EN = ["Habari za leo", "Mji mkuu"], ["The news of today", "The capital"]


def lines(*texts: str) -> str:
    return "".join(f"{text}\n" for text in texts)


TMX = "".join(
    f'<tu><tuv xml:lang="en-US"><seg>{en}</seg></tuv><tuv xml:lang="SW"><seg>{sw}</seg></tuv></tu>'
    for sw, en in zip(SW, EN, strict=True)
)
LAYOUTS: dict[str, dict[str, str]] = {
    "folders": {"sw/a.txt": lines(*SW), "en/a.txt": lines(*EN)},
    "folders by other codes": {"swh_Latn/x/a.txt": lines(*SW), "eng/x/a.txt": lines(*EN)},
    "moses": {"deep/news.sw": lines(*SW), "deep/news.en": lines(*EN)},
    "languages alone": {"sw.txt": lines(*SW), "en.txt": lines(*EN)},
    "code before the ending": {"news-sw.txt": lines(*SW), "news-en.txt": lines(*EN)},
    "pair in the name": {"en-sw.swa": lines(*SW), "en-sw.eng": lines(*EN)},
    "tsv with names": {"t.tsv": "id\ten\tsw\n" + "".join(f"7\t{e}\t{s}\n" for s, e in zip(SW, EN, strict=True))},
    "tsv without names": {"sw-en.tsv": "".join(f"{s}\t{e}\n" for s, e in zip(SW, EN, strict=True))},
    "csv": {"t.csv": "Kiswahili;English\n" + "".join(f'"{s}";{e}\n' for s, e in zip(SW, EN, strict=True))},
    "jsonl": {"t.jsonl": "".join(json.dumps({"sw": s, "en": e}) + "\n" for s, e in zip(SW, EN, strict=True))},
    "translation": {
        "t.jsonl": "".join(json.dumps({"translation": {"sw": s, "en": e}}) + "\n" for s, e in zip(SW, EN, strict=True))
    },
    "tmx": {"t.tmx": f"<tmx><body>{TMX}</body></tmx>"},
}  # fmt: skip


def write(folder: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")


def read(folder: Path, langs: tuple[str, ...] = ("sw", "en")) -> list[dict[str, list[str | None]]]:
    return [dict(rows.texts) for rows in sources.read(folder, ["own"], langs)]  # type: ignore[misc]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str, tmp_path: Path) -> None:
    write(tmp_path, LAYOUTS[layout])
    write(tmp_path, {"README.md": "# sw and en", "sw/card.html": "one", "en/card.html": "two\nlines"})
    write(tmp_path, {"dev.sw": lines("scored"), "dev.en": lines("scored")})
    assert read(tmp_path) == [{"sw": SW, "en": EN}]


def test_three_languages_compressed_and_an_empty_line(tmp_path: Path) -> None:
    write(tmp_path, {"sw/a.txt": lines(*SW), "en/a.txt": lines(*EN)})
    (tmp_path / "fr").mkdir()
    (tmp_path / "fr/a.txt.gz").write_bytes(gzip.compress(lines("Les nouvelles", "").encode()))
    (rows,) = read(tmp_path, ("sw", "en", "fr"))
    assert rows == {"sw": SW, "en": EN, "fr": ["Les nouvelles", None]}
    assert read(tmp_path, ("sw", "fr")) == [{"sw": SW, "fr": ["Les nouvelles", None]}]


def test_parquet(tmp_path: Path) -> None:
    pq.write_table(pa.table({"en": EN, "swh": SW, "id": [1, 2]}), tmp_path / "a.parquet")
    assert read(tmp_path) == [{"sw": SW, "en": EN}]


def test_shards_of_pairs(vocab: Path, tmp_path: Path) -> None:
    from xling.text import vocab as vocabulary

    processor = vocabulary.load_processor(vocab)
    texts = {
        "en": ["The teacher sees a red boat.", "My neighbour likes two books."],
        "ar": ["boat", "two books"],
    }
    with manifest.publish(tmp_path / "shards", "binarize", {}, []) as publication:
        vocabulary.copy_vocabulary(vocab, publication.path)
        (publication.path / "en-ar").mkdir()
        for side, its_texts in texts.items():
            with ShardWriter(
                publication.path / "en-ar" / f"train.en-ar.{side}", processor.get_piece_size()
            ) as writer:
                for item in encode_lines(processor, its_texts):
                    writer.add(item)
                writer.close()
    assert read(tmp_path, ("ar", "en")) == [texts]


def test_labels_and_files_alone_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(
        tmp_path,
        LAYOUTS["moses"] | {"topics.tsv": "mechi\tsport\nkura\tpolitics\n", "other.sw": lines("Peke yake")},
    )
    assert read(tmp_path) == [{"sw": SW, "en": EN}]
    told = capsys.readouterr().err
    assert "topics.tsv is not read: neither columns nor name say two of the languages sw, en" in told
    assert "no file of the same name is in another language: other.sw" in told


def test_what_lies_beside_the_pairs_of_a_corpus_is_neither_read_nor_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with manifest.publish(tmp_path / "pairs", "corpus parallel", {}, []) as publication:
        write(publication.path, {"train.sw": lines(*SW), "train.en": lines(*EN)})
        for name in ("rejects", "shards"):
            (publication.path / name).mkdir()
            pq.write_table(pa.table({"src": EN, "tgt": SW}), publication.path / name / "part.parquet")
    assert read(tmp_path) == [{"sw": SW, "en": EN}]
    assert "not read" not in capsys.readouterr().err


ODD_NAMES = "Nr.;Maandishi (asili);Our translation\n" + "".join(
    f"{n};{s};{e}\n" for n, (s, e) in enumerate(zip(SW * 3, EN * 3, strict=True))
)


def test_columns_with_odd_names_are_asked_for_in_a_way_that_works(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, {"export.csv": ODD_NAMES})
    assert read(tmp_path) == []
    assert "for pairs, write sw and en above the columns of text" in capsys.readouterr().err
    (tmp_path / "export.csv").rename(path := tmp_path / "sw-en.csv")
    with pytest.raises(UserError) as caught:
        read(tmp_path)
    assert "sw and en" in caught.value.valid
    assert "write these two names into the first row" in caught.value.fix
    assert f"'csv:{path}#Maandishi (asili)+Our translation'" in caught.value.fix
    assert "xling corpus parallel pair=sw-en out=PAIRS, then data=PAIRS" in caught.value.fix
    write(tmp_path, {"sw-en.csv": ODD_NAMES.replace("Maandishi (asili);Our translation", "sw;en")})
    assert read(tmp_path) == [{"sw": SW * 3, "en": EN * 3}]


@pytest.mark.parametrize(
    ("files", "langs", "message"),
    [
        (
            {"sw/a.txt": lines("moja"), "en/a.txt": lines("one", "two")},
            ("sw", "en"),
            "a.txt has 2 lines but .*has 1 ",
        ),
        ({"sw.txt": lines("moja")}, ("sw",), "two languages or more"),
        ({"sw.txt": lines("moja")}, ("swx", "en"), "unknown language"),
        ({"sw.txt": lines("moja"), "swh.txt": lines("moja")}, ("sw", "en"), "are both Swahili"),
    ],
)
def test_what_cannot_be_aligned(
    files: dict[str, str], langs: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    write(tmp_path, files)
    with pytest.raises(UserError, match=message):
        read(tmp_path, langs)


@pytest.mark.parametrize("layout", ["tsv with names", "csv", "jsonl", "tmx"])
def test_one_file_is_read_whatever_its_name(layout: str, tmp_path: Path) -> None:
    ((name, content),) = LAYOUTS[layout].items()
    write(tmp_path, {f"my.test{Path(name).suffix}": content, "other.csv": "sw,en\nmoja,one\n"})
    path = tmp_path / f"my.test{Path(name).suffix}"
    assert read(path) == [{"sw": SW, "en": EN}]
    build.run(NwayConfig(path, tmp_path / "rows", ("own", "seed"), ("sw", "en"), min_count=1))
    assert manifest.read(tmp_path / "rows").counts["rows"] == {"own": {"sw": 2, "en": 2}}


def test_a_file_of_one_language_is_no_aligned_text(tmp_path: Path) -> None:
    write(tmp_path, {"sw.txt": lines(*SW)})
    with pytest.raises(UserError, match=r"is not a folder; valid: .*\.csv") as caught:
        build.run(NwayConfig(tmp_path / "sw.txt", tmp_path / "rows", ("own",), ("sw", "en")))
    assert f"give data={tmp_path};" in caught.value.fix
    with pytest.raises(UserError, match="is not a folder"):
        build.run(NwayConfig(tmp_path / "en.csv", tmp_path / "rows", ("own",), ("sw", "en")))


def test_files_of_other_formats_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, LAYOUTS["moses"] | {"my pairs.xlsx": "", "sw-en.docx": "", "notes.html": ""})
    assert read(tmp_path) == [{"sw": SW, "en": EN}]
    told = capsys.readouterr().err
    path = tmp_path / "my pairs.xlsx"
    assert f"{path} is not read; xling corpus parallel pair=sw-en source='xlsx:{path}' out=PAIRS" in told
    assert f"source=docx:{tmp_path}/sw-en.docx out" in told and "notes.html" not in told


def test_named_folders_are_read_instead(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(
        tmp_path,
        LAYOUTS["moses"] | {"seed/eng_Latn.txt": lines("a lake"), "seed/swh_Latn.txt": lines("ziwa")},
    )
    write(tmp_path, {"seed/fra_Latn.txt": lines("un lac")})
    found = list(sources.read(tmp_path, ["own", "seed"], ("sw", "en")))
    assert [(rows.source, dict(rows.texts)) for rows in found] == [
        ("seed", {"en": ["a lake"], "sw": ["ziwa"]})
    ]
    assert "seed in " in capsys.readouterr().err


def test_held_out_rows_are_not_in_the_output(tmp_path: Path) -> None:
    sw, en = ([f"{word}{i % 90} maneno" for i in range(180)] for word in ("neno", "word"))
    write(tmp_path / "data", {"a.sw": lines(*sw), "a.en": lines(*en)})
    out = tmp_path / "data/runs/rows"
    published = build.run(
        NwayConfig(tmp_path / "data", out, ("own",), ("sw", "en"), held_out=0.3, min_count=1)
    )
    rows = [json.loads(line) for line in (out / "held_out/sw-en.test.jsonl").read_text().splitlines()]
    assert published.counts["held_out"] == {"sw-en": len(rows)} and 10 < len(rows) < 45
    ((row_set,), *_) = open_rows(out)
    words = read_words(out)
    trained = {words[i] for i in np.asarray(row_set.words)}
    assert not trained & {row["sw"].split()[0] for row in rows} and len(trained) == 2 * (90 - len(rows)) + 1


def test_no_more_is_held_out_than_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_files, "MAX_HELD_OUT", 20)
    texts: list[str | None] = [f"text {i}" for i in range(1000)]
    kept, held = own_files.split_held_out({"en": texts, "sw": texts}, 0.5, [])
    assert 8 <= len(held["en"]) <= 32 and sorted(map(str, kept["sw"] + held["sw"])) == sorted(map(str, texts))
    _, again = own_files.split_held_out({"en": texts, "sw": texts}, 0.5, [held])
    assert again == held


def test_a_share_that_holds_out_nothing(tmp_path: Path) -> None:
    write(tmp_path / "data", LAYOUTS["moses"])
    cfg = NwayConfig(
        tmp_path / "data", tmp_path / "rows", ("own",), ("sw", "en"), held_out=0.0001, min_count=1
    )
    with pytest.raises(UserError, match="holds out none"):
        build.run(cfg)
    assert not (tmp_path / "rows").exists()

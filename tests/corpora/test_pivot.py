import polars as pl
import pytest

from xling.core.commands.runner import run_local
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.corpora.lexicon.from_links import DictionaryConfig
from xling.corpora.parallel.pivot import PivotConfig
from xling.corpora.parallel.settings import ParallelConfig
from xling.corpora.parallel.wordalign.aligner import AlignerSettings
from xling.corpora.parallel.wordalign.stage import AlignConfig
from xling.corpora.toyworld import para
from xling.text.files.dictionary import read_dictionary


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    """Two corpora that share most of their English sentences; the English side is the second of one of them."""
    folder = tmp_path_factory.mktemp("corpora")
    pairs = list(para("en", "de", 300, 1))
    (folder / "a.tsv").write_text("".join(f"{en}\t{de}\n" for en, de in pairs))
    (folder / "b.tsv").write_text(
        "".join(f"{de.upper()}\t{en.replace(' ', '  ', 1)}\n" for en, de in pairs[100:])
    )
    for pair, name in (("en-de", "a"), ("fr-en", "b")):
        source = (f"tsv:{folder / name}.tsv",)
        settings = {"filters": ("empty",), "dev_pairs": 0, "test_pairs": 0}
        run_local("corpus parallel", ParallelConfig(pair, source=source, out=str(folder / pair), **settings))
    return folder


def test_corpora_are_joined_by_the_language_they_share(corpora, tmp_path):
    given = {"de": str(corpora / "en-de"), "fr": str(corpora / "fr-en")}
    cfg = PivotConfig("en", given, out=str(tmp_path / "out"))
    run_local("corpus pivot", cfg)
    rows = pl.read_parquet(tmp_path / "out" / "rows.parquet")
    assert rows.height == manifest.verify(tmp_path / "out").counts["rows"]
    german = {}
    for en, de in pl.read_parquet(
        corpora / "en-de" / "shards" / "train.parquet", columns=["src", "tgt"]
    ).iter_rows():
        german.setdefault(en, de)
    both = {
        " ".join(en.split()) for en in pl.read_parquet(corpora / "fr-en" / "shards" / "train.parquet")["tgt"]
    }
    assert dict(rows.select("en", "de").iter_rows()) == {en: de for en, de in german.items() if en in both}
    assert all(fr == fr.upper() for fr in rows["fr"])
    assert rows["licence.de"].unique().to_list() == ["not stated"]
    assert rows["source.fr"].unique().to_list() == [f"tsv:{corpora / 'b'}.tsv"]
    assert (tmp_path / "out" / "rows.fr").read_text().splitlines() == rows["fr"].to_list()
    some = PivotConfig("en", given, out=str(tmp_path / "some"), min_langs=2)
    run_local("corpus pivot", some)
    assert set(pl.read_parquet(tmp_path / "some" / "rows.parquet")["en"]) == {*german, *both}
    assert "up to date" in run_local("corpus pivot", cfg)


def test_mistakes_of_a_pivot_are_told(corpora, tmp_path):
    de, fr = str(corpora / "en-de"), str(corpora / "fr-en")
    for wrong in ({"de": de}, {"de": de, "en": fr}, {}):
        with pytest.raises(UserError, match="two other languages"):
            PivotConfig("en", wrong)
    with pytest.raises(UserError, match="min_langs=4"):
        PivotConfig("en", {"de": de, "fr": fr}, min_langs=4)
    for given, message in (
        ({"de": de, "fr": str(tmp_path)}, "no parallel corpus"),
        ({"de": de, "sw": fr}, "is fr-en"),
    ):
        with pytest.raises(UserError, match=message):
            run_local("corpus pivot", PivotConfig("en", given, out=str(tmp_path / "out")))
    assert not (tmp_path / "out").exists()


def test_dictionaries_come_from_links(corpora, tmp_path):
    quick = AlignerSettings(em_iterations=3, sweeps=8, averaged_sweeps=4)
    out = str(tmp_path / "align")
    run_local("align", AlignConfig("en-de", corpus=str(corpora / "en-de"), out=out, aligner=quick))
    cfg = DictionaryConfig("en-de", source=out, out=str(tmp_path / "dictionary"))
    run_local("corpus dictionary", cfg)
    forward = read_dictionary(tmp_path / "dictionary" / "en-de.txt")
    backward = read_dictionary(tmp_path / "dictionary" / "de-en.txt")
    assert len(forward) > 30
    assert {(s, t) for s, ts in forward.items() for t in ts} == {
        (t, s) for s, ts in backward.items() for t in ts
    }
    assert "up to date" in run_local("corpus dictionary", cfg)
    with pytest.raises(UserError, match="no alignment"):
        run_local(
            "corpus dictionary", DictionaryConfig("en-de", source=str(tmp_path), out=str(tmp_path / "x"))
        )
    with pytest.raises(UserError, match="linked 9999 times"):
        run_local(
            "corpus dictionary",
            DictionaryConfig("en-de", source=out, out=str(tmp_path / "x"), min_count=9999),
        )
    for wrong in ({"min_count": 0}, {"min_share": 2.0}, {"max_translations": 0}):
        with pytest.raises(UserError):
            DictionaryConfig("en-de", **wrong)

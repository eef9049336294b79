import pytest

from xling.core.commands.runner import run_local
from xling.core.errors import UserError
from xling.corpora.lexicon.from_links import DictionaryConfig
from xling.corpora.parallel.settings import ParallelConfig
from xling.corpora.parallel.wordalign.aligner import AlignerSettings
from xling.corpora.parallel.wordalign.stage import AlignConfig
from xling.corpora.toyworld import para
from xling.text.files.dictionary import read_dictionary


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpora")
    (folder / "a.tsv").write_text("".join(f"{en}\t{de}\n" for en, de in para("en", "de", 300, 1)))
    settings = {"filters": ("empty",), "dev_pairs": 0, "test_pairs": 0}
    source = (f"tsv:{folder}/a.tsv",)
    run_local("corpus parallel", ParallelConfig("en-de", source=source, out=f"{folder}/en-de", **settings))
    return folder


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

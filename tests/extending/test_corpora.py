"""A corpus stage, a pair filter and two sources are one file each, which commands, cards and contract tests take."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests import forked

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return forked.run(str(HERE / "with_trial_files.py"), *words, cwd=cwd)


def stats(folder: Path) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = json.loads((folder / "stats.json").read_text(encoding="utf-8"))
    return found


def test_a_stage_and_a_source_in_a_corpus(tmp_path: Path) -> None:
    body = "\n\n".join(
        f"{i}\n00:00:0{i},000 --> 00:00:0{i},500\nMtu {word} anasema" for i, word in enumerate("abcde")
    )
    (tmp_path / "a.srt").write_text(body, encoding="utf-8")
    (tmp_path / "b.srt").write_text(body.replace("anasema", "anasema nini?"), encoding="utf-8")
    (tmp_path / "mine.yaml").write_text(
        "lang: sw\nsource: ['srt:*.srt']\nout: made\nbefore_dedup: [questions]\nafter_dedup: []\n"
        "dedup: false\nnear_dedup: false\nlm: {model: none}\nsettings: {questions: {max_share: 0.2}}\n",
        encoding="utf-8",
    )
    done = run("xling", "corpus", "mono", "mine.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    card = stats(tmp_path / "made")
    assert card["ledger"]["dropped"] == {"questions\tasked": 1}
    assert card["ledger"]["seen"]["corpus"] == 1
    assert card["reasons"]["questions\tasked"] == "too many paragraphs are questions"
    manifest = json.loads((tmp_path / "made" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["config"]["settings"] == {"questions": {"max_share": "0.2"}}
    wrong = run("xling", "corpus", "mono", "mine.yaml", "settings.questions.max_shar=1", cwd=tmp_path)
    assert (wrong.returncode, "max_share" in wrong.stderr) == (2, True)


def test_a_filter_and_a_source_of_pairs_in_a_parallel_corpus(tmp_path: Path) -> None:
    pairs = [
        ("The house is big.", "Nyumba ni kubwa."),
        ("Two dogs ran home.", "Two dogs ran home. Mbwa wawili."),
    ]
    text = "\n\n".join(f'msgid "{src}"\nmsgstr "{tgt}"' for src, tgt in pairs)
    (tmp_path / "sw.po").write_text(text, encoding="utf-8")
    (tmp_path / "mine.yaml").write_text(
        "pair: en-sw\nsource: ['po:sw.po']\nout: made\nfilters: [empty, echo]\nsettings: {echo: {min_chars: 5}}\n",
        encoding="utf-8",
    )
    done = run("xling", "corpus", "parallel", "mine.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    card = stats(tmp_path / "made")
    assert card["ledger"]["dropped"] == {"echo\techoed": 1}
    assert card["config"]["settings"] == {"echo": {"min_chars": "5"}}
    manifest = json.loads((tmp_path / "made" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["config"]["filters"] == ["empty", "echo"]
    assert manifest["counts"]["dropped"] == {"echo/echoed": 1}


def test_the_contract_tests_walk_over_them() -> None:
    nodes = [
        "stages/test_streaming.py::test_contract[questions]",
        "stages/test_streaming.py::test_each_example_meets_its_reason_and_no_other[questions-2]",
        "parallel/test_filter_contract.py::test_contract[echo]",
        "parallel/test_filter_contract.py::test_each_example_meets_its_reason_and_no_other[echo-2]",
        "parallel/test_pair_source_contract.py::test_the_sample_is_read_again_and_again[po]",
    ]
    words = ["pytest", "-q", "-p", "no:cacheprovider", *(f"tests/corpora/{node}" for node in nodes)]
    done = run(*words, cwd=ROOT)
    assert done.returncode == 0, done.stdout
    assert f"{len(nodes)} passed" in done.stdout

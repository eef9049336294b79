"""The report of whole runs: what it says, that it stands alone, and how it looks in a real browser."""

from __future__ import annotations

import csv
import json
import math
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import Browser
from eval_helpers import Epochs, write_world

from xling import cli
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.settings import config
from xling.eval.report import artifacts, comparison, stage
from xling.eval.report.stage import ReportConfig
from xling.eval.run import evaluation
from xling.eval.run.settings import EvalConfig
from xling.eval.scores import score_file
from xling.eval.scores.score_file import Score
from xling.pages import figure, tabular
from xling.pages.tabular import Table

LANGS = ("en", "de", "sw")
RIGHT = {"one": {"en": 12, "sw": 6, "de": 9}, "two": {"en": 12, "sw": 12, "de": 10}}


def events(start: float) -> list[dict[str, Any]]:
    """The log of a training of two objectives, validated twice."""
    found: list[dict[str, Any]] = []
    for update in (10, 20, 30, 40):
        loss = start / update
        by_lang = {f"loss/mmlm/{x}": loss + i for i, x in enumerate(LANGS)}
        both = {"loss": loss, "loss/mmlm": loss, "loss/tlm": loss / 2, **by_lang}
        found.append({"update": update, "split": "train", "tokens_per_s": 900, **both})
        if update % 20 == 0:
            ppl = {f"ppl{key[4:]}": math.exp(value) for key, value in both.items()}
            found.append({"update": update, "split": "valid", **both, **ppl, "de-en/oracle": 7.0})
    return found


def train(out: Path, data: Path, start: float, seed: int) -> None:
    settings = config.to_dict(
        config.load(
            cli.load("xling.training.settings:PretrainConfig"),
            overrides=[f"data={data}", f"out={out}", f"seed={seed}"],
        )
    )
    with manifest.publish(out, "pretrain", settings, [data]) as made:
        (made.path / "log.jsonl").write_text("".join(json.dumps(e) + "\n" for e in events(start)))
        made.counts |= {
            "mixture": {
                "mmlm en": (900, 600),
                "mmlm de": (90, 200),
                "mmlm sw": (10, 200),
                "tlm de-en": (5, 5),
            }
        }


def translate(out: Path, refs: Path, share: int) -> None:
    """A translation model that has the first ``share`` of ten lines right."""
    lines = [f"line {i} has a few words of its own , number {i * 7}" for i in range(10)]
    refs.parent.mkdir(exist_ok=True)
    refs.write_text("".join(f"{line}\n" for line in lines))
    outputs = [line if i < share else "something else altogether is here" for i, line in enumerate(lines)]
    from xling.transfer.translation.supervised import MtConfig, bleu_and_chrf

    found = bleu_and_chrf(outputs, lines, "en")
    settings = MtConfig(data="d", out=str(out), test={"de-en": (str(refs), str(refs))})
    with manifest.publish(out, "finetune mt", settings) as made:
        (made.path / "test.de-en.txt").write_text("".join(f"{line}\n" for line in outputs))
        (made.path / "scores.json").write_text(json.dumps({"de-en": found}))
        made.counts |= {"scores": {"de-en": found}}


def make_runs(folder: Path, world: Path) -> Path:
    """Two runs, ``one`` and ``two``, of every kind of stage that a report reads."""
    from xling.corpora.binarize import BinarizeConfig

    for number, (name, right) in enumerate(RIGHT.items(), 1):
        run_folder = folder / "runs" / name
        shards = run_folder / "shards"
        settings = BinarizeConfig("v", str(shards), {x: (f"{x}.txt",) for x in LANGS})
        with manifest.publish(shards, "binarize", settings) as made:
            made.counts |= {x: {"train": {"tokens": n}} for x, n in zip(LANGS, (900, 90, 10), strict=True)}
        train(run_folder / "model", shards, 100.0 * number, number)
        systems = [Epochs({x: [n] * 4 for x, n in right.items()}, name * 16)]
        cfg = EvalConfig(
            ("toy_xnli",), run_folder / "eval", world, ("pretrained",), run_folder / "model", seeds=(1, 2)
        )
        evaluation.evaluate_systems(cfg, systems)
        translate(run_folder / "mt", folder / "refs" / "en.txt", 6 + 3 * number)
    return folder / "runs"


@pytest.fixture
def runs(tmp_path: Path, world: Path) -> Path:
    """Runs that a test may change."""
    return make_runs(tmp_path, world)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs that no test changes."""
    folder = tmp_path_factory.mktemp("kept")
    return make_runs(folder, write_world(folder / "data"))


@pytest.fixture(scope="module")
def both(kept: Path) -> Path:
    """The report of both runs."""
    return made_of(kept, kept.parent / "both", "one", "two", title="50 % & more_")


def made_of(runs: Path, out: Path, *names: str, **settings: Any) -> Path:
    stage.run(ReportConfig(tuple(str(runs / name) for name in names), out, **settings))
    return out


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_comparison_by_hand(both: Path) -> None:
    averages = {row["test"]: row for row in rows(both / "comparison.csv")}
    nli = averages["toy_xnli"]
    assert (nli["system"], nli["against"], nli["over"]) == ("two", "one", "2 languages")
    # Without the source language, 9 and 6 of 12 rows against 10 and 12; two seeds that answer alike.
    assert float(nli["before"]) == pytest.approx(100 * 15 / 24) and float(nli["after"]) == pytest.approx(
        100 * 22 / 24
    )
    assert float(nli["difference"]) == pytest.approx(100 * 7 / 24)
    assert float(nli["low"]) > 0 and float(nli["p"]) < 0.05 and int(nli["rows"]) == 48
    (first,) = [row for row in rows(both / "overall.csv") if row["system"] == "two"]
    assert first["toy_xnli (accuracy)"].startswith(f"{float(nli['after']):.1f} "), "the number that is tested"
    single = {row["over"]: row for row in rows(both / "comparison_languages.csv")}
    assert float(single["en"]["difference"]) == 0 and float(single["en"]["p"]) == 1
    assert float(single["sw"]["difference"]) == pytest.approx(50) and single["sw"]["p (Holm)"] == ""
    bleu = averages["finetune mt"]
    assert float(bleu["after"]) == 100 and float(bleu["difference"]) == pytest.approx(
        100 - float(bleu["before"])
    )


def test_other_rows_are_not_compared(runs: Path, tmp_path: Path, world: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(world, other)
    path = other / "nli" / "sw.test.tsv"
    path.write_text(path.read_text().replace("entailment", "neutral"))
    systems = [Epochs({x: [n] * 4 for x, n in RIGHT["two"].items()}, "two" * 16)]
    shutil.rmtree(runs / "two" / "eval")
    evaluation.evaluate_systems(
        EvalConfig(("toy_xnli",), runs / "two/eval", other, ("pretrained",), seeds=(1, 2)), systems
    )
    text = (made_of(runs, tmp_path / "out", "one", "two") / "report.md").read_text()
    assert "toy_xnli sw: two and one were scored on other rows." in text


def test_the_commands_make_the_same_settings(kept: Path, both: Path) -> None:
    text = (both / "report.md").read_text()
    _, block = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    found = []
    for line in block.splitlines():
        stage, rest = cli.find_stage(shlex.split(line)[1:])
        cfg, _ = cli.resolve(stage, rest)
        found.append(stage.name)
        path = {"binarize": "shards", "pretrain": "model", "eval": "eval/tables", "finetune mt": "mt"}[
            stage.name
        ]
        made = manifest.read(kept / "two" / path)
        wanted = made.counts["made_by"]["settings"] if stage.name == "eval" else made.config
        assert json.loads(json.dumps(config.to_dict(cfg))) == wanted, line
    assert found.index("binarize") < found.index("pretrain") < found.index("eval")
    assert "model.layers" not in block, "defaults are left out"


def test_curves_corpus_and_intervals(runs: Path, tmp_path: Path) -> None:
    out = made_of(runs, tmp_path / "out", "one")
    last = {(r["objective"], r["language"]): r for r in rows(out / "training.csv")}
    assert float(last["mmlm", "sw"]["training loss"]) == 100 / 40 + 2
    assert float(last["mmlm", "all"]["first validation"]) == 100 / 20
    assert float(last["tlm", "all"]["perplexity"]) == pytest.approx(math.exp(1.25), rel=1e-5)
    drawn = {(r["sampling"], r["language"]): r for r in rows(out / "sampling.csv")}
    assert (
        float(drawn["model mmlm", "sw"]["share %"]) == 1 and float(drawn["model mmlm", "sw"]["drawn %"]) == 20
    )
    assert float(drawn["model mmlm", "sw"]["times"]) == 20
    (bleu,) = rows(out / "translation.csv")
    assert float(bleu["low"]) < float(bleu["score"]) < float(bleu["high"]) and bleu["rows"] == "10"
    text = (out / "report.html").read_text()
    assert "validation: oracle" not in text or text.count("<svg") > 5
    for caption in (
        "model, training loss of mmlm",
        "model, validation loss of tlm",
        "model, training: tokens_per_s",
        "model mmlm, share of tokens",
    ):
        assert caption in text
    # The references have changed since: the score stands, without an interval.
    (tmp_path / "refs" / "en.txt").write_text("other\n" * 10)
    (bleu,) = rows(made_of(runs, tmp_path / "again", "one") / "translation.csv")
    assert bleu["low"] == "" and float(bleu["score"]) > 0


def test_a_model_alone_brings_what_it_was_made_from(runs: Path, tmp_path: Path) -> None:
    out = made_of(runs / "one", tmp_path / "out", "model")
    assert [row["stage"] for row in rows(out / "stages.csv")] == ["binarize", "pretrain"]
    shutil.rmtree(runs / "two" / "shards")
    text = (made_of(runs / "two", tmp_path / "alone", "model") / "report.md").read_text()
    assert f"# no longer available: {runs / 'two' / 'shards'}" in text


def test_a_training_that_goes_on_is_shown(runs: Path, tmp_path: Path) -> None:
    partial = runs / "one" / "next.partial"
    partial.mkdir()
    whole = "".join(json.dumps(e) + "\n" for e in events(50.0))
    (partial / "log.jsonl").write_text(whole + '{"update": 50, "spl')
    found = {row["training"] for row in rows(made_of(runs, tmp_path / "out", "one") / "training.csv")}
    assert found == {"model", "next.partial"}


def test_a_rerun_does_nothing_and_a_changed_run_is_seen(runs: Path, tmp_path: Path) -> None:
    out = made_of(runs, tmp_path / "out", "one")
    before = {p: p.stat().st_mtime_ns for p in out.iterdir()}
    made_of(runs, out, "one")
    assert {p: p.stat().st_mtime_ns for p in out.iterdir()} == before
    shutil.rmtree(runs / "one" / "model")
    train(runs / "one" / "model", runs / "one" / "shards", 300.0, 1)
    made_of(runs, out, "one")
    assert "7.5" in {row["training loss"] for row in rows(out / "training.csv")}


def test_equal_runs_give_equal_bytes(kept: Path, both: Path, tmp_path: Path) -> None:
    again = made_of(kept, tmp_path / "again", "one", "two", title="50 % & more_")
    assert (again / "report.html").read_bytes() == (both / "report.html").read_bytes()


def test_a_report_inside_of_its_run_is_not_part_of_it(runs: Path) -> None:
    out = made_of(runs, runs / "one" / "report", "one")
    before = (out / "report.html").stat().st_mtime_ns
    made_of(runs, out, "one")
    assert (out / "report.html").stat().st_mtime_ns == before


def test_systems_of_several_runs_are_named_apart() -> None:
    def one(name: str, system: str, value: float, suite: str = "toy_xnli") -> artifacts.Run:
        scores = [Score(suite, "sw", "accuracy", value, 9, 1, s) for s in (system, "random")]
        return artifacts.Run(name, Path(name), (), (), tuple(scores), {})

    scores, notes = artifacts.merged_scores([one("a", "pretrained", 1.0), one("b", "pretrained", 2.0)])
    assert [(s.system, s.value) for s in scores] == [("a", 1.0), ("random", 1.0), ("b", 2.0)] and notes
    scores, notes = artifacts.merged_scores([one("a", "pretrained", 1.0), one("b", "mine", 2.0, "panx")])
    assert [s.system for s in scores] == ["pretrained", "random", "mine", "random"] and not notes


def test_translations_in_a_folder_of_a_run_are_compared_apart(tmp_path: Path) -> None:
    shares = {"one/de/mt": 6, "one/sw/mt": 7, "two/de/mt": 9}
    for place, share in shares.items():
        translate(tmp_path / place, tmp_path / "refs" / "en.txt", share)
    runs = artifacts.open_runs([tmp_path / "one", tmp_path / "two"])
    in_tables = {score.system for score in artifacts.merged_scores(runs)[0]}
    assert in_tables == {"one de/mt", "two", "sw/mt"}
    compared = comparison.systems_of(runs, None)
    assert len(compared) == 3 and {system.name for system in compared} == in_tables


def test_names_are_as_long_as_they_need_to_be() -> None:
    assert artifacts.short_names([Path("x/a"), Path("x/b")]) == ["a", "b"]
    assert artifacts.short_names([Path("x/a/eval"), Path("x/b/eval")]) == ["a/eval", "b/eval"]


@pytest.mark.parametrize(
    ("places", "message"),
    [
        ((), "no run is given"),
        (("{runs}/three",), "no run at .*three"),
        (("{runs}/../refs",), "holds nothing that a stage has finished"),
        (("x={runs}/one", "x={runs}/two"), "two runs are called 'x'"),
        (("{runs}/../refs/en.txt",), "is not JSON"),
    ],
)
def test_mistakes(kept: Path, tmp_path: Path, places: tuple[str, ...], message: str) -> None:
    with pytest.raises(UserError, match=message):
        stage.run(ReportConfig(tuple(p.format(runs=kept) for p in places), tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_every_latex_row_has_every_column(both: Path) -> None:
    text = (both / "report.tex").read_text()
    for spec, body in re.findall(r"\\begin\{longtable\}\{([lr]+)\}(.*?)\\end\{longtable\}", text, re.DOTALL):
        lines = [line for line in body.splitlines() if line.endswith(r" \\") and "caption" not in line]
        assert lines and {line.count(" & ") for line in lines} == {len(spec) - 1}
    assert text.count(r"\begin{") == text.count(r"\end{")


def test_a_table_in_every_format() -> None:
    table = Table(
        "t",
        "A <b>",
        (("name", ""), ("n", ",d"), ("x", ".1f")),
        (("a|b", 1234, 0.25), ("c&", None, None)),
        ("so",),
    )
    assert tabular.to_markdown(table).splitlines()[2:6] == [
        "| name |     n |    x |",
        "|------|------:|-----:|",
        "| a\\|b | 1,234 |  0.2 |",
        "| c&   |     - |    - |",
    ]
    assert tabular.to_csv(table) == "name,n,x\na|b,1234,0.25\nc&,,\n"
    assert r"c\& & - & - \\" in tabular.to_latex(table)
    assert "<h3>A &lt;b&gt;</h3>" in tabular.html_table(table)
    assert "<h3>" not in tabular.html_table(table, heading=False)


def test_more_lines_than_can_be_told_apart_are_several_pictures() -> None:
    series = {f"l{i:02}": [(0.0, 1.0), (1.0, float(i))] for i in range(19)}
    pictures = figure.line_charts(series, "many", "loss")
    assert len(pictures) == 3 and "many (3 of 3)" in pictures[2]
    ids = [re.findall(r' id="([^"]+)"', picture) for picture in pictures]
    for found in ids:
        assert len(found) == len(set(found))


def _scores() -> Iterator[Score]:
    """A retrieval matrix of thirty languages, and zero-shot scores from three sources."""
    langs = [*LANGS, *(f"l{i}" for i in range(27))]
    for i, src in enumerate(langs):
        for j, tgt in enumerate(langs):
            if i != j:
                value = 100 - abs(i - j) * 3.1
                yield Score(
                    "ntrex",
                    f"{src}-{tgt}",
                    "accuracy",
                    value,
                    100,
                    -1,
                    source="",
                    low=value - 1,
                    high=value + 1,
                )
    for source in ("en", "ru", "sw"):
        for j, lang in enumerate(langs):
            yield Score("xnli", lang, "accuracy", 70.0 - j, 100, 1, source=source, synthetic=True)


@pytest.mark.browser
def test_the_page_in_a_browser(kept: Path, tmp_path: Path) -> None:
    score_file.write_scores(tmp_path / "many/scores.json", _scores())
    places = tuple(map(str, (kept / "one", kept / "two", tmp_path / "many")))
    note = "<script>alert(1)</script> made by a test"
    stage.run(ReportConfig(places, tmp_path / "out", "Quickstart <1>", note))
    file = tmp_path / "out" / "report.html"
    with Browser(tmp_path / "profile") as page:
        for width in (360, 1280):
            page.requests.clear()
            page.open(file, width)
            assert page.value("document.title") == "Quickstart <1>"
            page.value("document.querySelectorAll('details').forEach(d => d.open = true)")
            assert page.value("document.documentElement.scrollWidth <= window.innerWidth"), "scrolls sideways"
            assert page.value("document.querySelectorAll('svg').length") > 10
            # Letters of the pictures are readable: an SVG is shown at no less than its own size.
            heights = "[...document.querySelectorAll('svg text')].map(t => t.getBoundingClientRect().height)"
            assert page.value(f"Math.min(...{heights})") >= 8
            assert page.requests == [file.as_uri()]
            assert page.complaints == []
        folded = page.value("[...document.querySelectorAll('summary')].map(s => s.innerText)")
        assert "Retrieval" in folded and any(text.startswith("ntrex, ") for text in folded)
        ids = page.value("[...document.querySelectorAll('[id]')].map(e => e.id)")
        assert len(ids) == len(set(ids)), "two pictures share an id"
        used = "[...document.querySelectorAll('use')].every(u => document.querySelector(u.href.baseVal))"
        assert page.value(used), "a picture refers to what is not there"
        assert "made by a test" in page.value("document.body.innerText")
        page.value("document.querySelectorAll('details').forEach(d => d.open = false)")
        page.picture(tmp_path / "page.png")  # to look at
        page.paper(tmp_path / "page.pdf")
        assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")


def test_the_page_loads_nothing_and_says_what_is_synthetic(tmp_path: Path) -> None:
    score_file.write_scores(tmp_path / "run/scores.json", [s for s in _scores() if s.suite == "xnli"])
    text = str(stage.run(ReportConfig((str(tmp_path / "run"),), tmp_path / "out")))
    page = (tmp_path / "out/report.html").read_text()
    assert "SYNTHETIC" in text and "SYNTHETIC" in page
    for foreign in ("http://", "https://", "src=", "@import", "fetch(", "import("):
        assert foreign not in page
    assert page.count("<script") == 2, "its own"


def test_the_first_table_says_what_is_better(tmp_path: Path) -> None:
    world = write_world(tmp_path / "data")
    for name, right in (("one", [12, 3, 3]), ("two", [12, 12, 12]), ("three", [12, 3, 4])):
        cfg = EvalConfig(("toy_xnli",), tmp_path / name, world, langs=LANGS, seeds=(1,))
        given = {lang: [n] * 4 for lang, n in zip(LANGS, right, strict=True)}
        evaluation.evaluate_systems(cfg, [Epochs(given, digest=name[0] * 64)])
    places = tuple(f"{name}={tmp_path / name}" for name in ("one", "two", "three"))
    stage.run(ReportConfig(places, tmp_path / "out", data=world))
    text = (tmp_path / "out/report.md").read_text()
    cells = dict(csv.reader((tmp_path / "out/overall.csv").read_text().splitlines()))
    assert cells["system"] == "toy_xnli (accuracy)"
    assert re.fullmatch(r"25\.0 \[[\d.]+, [\d.]+\] rank 2 \(a\)", cells["one"])
    assert re.fullmatch(r"100\.0 \[[\d.]+, [\d.]+\] rank 1 better", cells["two"])
    assert re.fullmatch(r"29\.2 \[[\d.]+, [\d.]+\] rank 2 alike", cells["three"])
    assert text.index("Overall") < text.index("- toy_xnli, "), "before the findings"
    page = (tmp_path / "out/report.html").read_text()
    assert page.index("Overall") < page.index("<nav")
    assert 'href="overall.csv"' in page and 'href="report.tex"' in page


def test_findings_stand_by_their_weight_and_count_in_words() -> None:
    scores = [
        Score(suite, lang, "accuracy", value, 10, 1, system)
        for suite, mine, other in (("near", 51.0, 50.0), ("far", 20.0, 60.0), ("middle", 60.0, 50.0))
        for lang in ("en", "sw")
        for system, value in (("pretrained", mine), ("random", other))
    ]
    said = stage.summary(scores)
    assert [text.partition(",")[0] for text in said] == ["far", "middle", "near"]
    assert "the 1 language other than en (controls: random 60.0)" in said[0]
    alone = [Score("xnli", "sw", "accuracy", value, 10, 1, f"system{value}") for value in (50.0, 70.0, 60.0)]
    assert [re.findall("system(..)", text)[0] for text in stage.summary(alone)] == ["70", "60", "50"]


def test_a_finding_reads_no_other_system_than_the_controls(monkeypatch: pytest.MonkeyPatch) -> None:
    mean, num_asked = stage._complete_mean, 0

    def counted(*given: object) -> float | None:
        nonlocal num_asked
        num_asked += 1
        return mean(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(stage, "_complete_mean", counted)
    systems = [*(f"system{n}" for n in range(50)), "random", "majority"]
    scores = [Score("xnli", "sw", "accuracy", 40.0 + n, 100, 1, each) for n, each in enumerate(systems)]
    said = stage.summary(scores)
    assert (
        len(said) == 50 and said[-1].endswith("(controls: random 90.0, majority 91.0).") and num_asked == 150
    )


def test_published_columns_say_whether_they_are_comparable(tmp_path: Path) -> None:
    file = tmp_path / "run/scores.json"
    score_file.write_scores(file, [Score("xnli", lang, "accuracy", 50.0, 100, 1) for lang in ("en", "sw")])
    plain = str(stage.run(ReportConfig((str(file),), tmp_path / "out")))
    assert "XLM-R" not in plain
    shown = str(stage.run(ReportConfig((str(file),), tmp_path / "out", published=True)))
    assert "XLM-R base (published, not comparable)" in shown
    assert "its average is over 15 languages, ours over 2 of them" in shown
    assert "note: the XXL row of that README" in shown
    assert "XLM-R base (published, not comparable)" in (tmp_path / "out/report.html").read_text()


def test_two_scores_of_one_name_are_named_by_their_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in (("first", 50.0), ("second", 51.0)):
        scores = [Score("xnli", "sw", "accuracy", value, 100, 1)]
        score_file.write_scores(tmp_path / "runs" / name / "scores.json", scores)
    assert cli.main(["report", str(tmp_path / "runs"), f"out={tmp_path / 'out'}"]) == 2
    said = capsys.readouterr().err
    files = [str(tmp_path / "runs" / name / "scores.json") for name in ("first", "second")]
    assert all(file in said for file in files) and "xnli/sw/accuracy" in said and "NAME=PATH" in said
    assert not (tmp_path / "out").exists()
    apart = ",".join(f"{name}={tmp_path / 'runs' / name}" for name in ("first", "second"))
    assert cli.main(["report", f"runs={apart}", f"out={tmp_path / 'out'}"]) == 0
    # The same measurement twice, as where a folder was copied, is one.
    shutil.copytree(tmp_path / "runs/first", tmp_path / "again/first")
    shutil.copytree(tmp_path / "runs/first", tmp_path / "again/copy")
    assert cli.main(["report", str(tmp_path / "again"), f"out={tmp_path / 'other'}"]) == 0
    assert manifest.read(tmp_path / "other").counts["scores"] == 1

"""Published results, groups of suites, and contamination."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
import yaml

from xling.core.errors import UserError
from xling.corpora.parallel.filters import Context
from xling.corpora.parallel.filters.overlap import Overlap
from xling.corpora.stages.contamination import Contamination
from xling.eval.kinds.base import KINDS
from xling.eval.leaks import row_index
from xling.eval.metrics import METRICS
from xling.eval.rows.protocols import PROTOCOLS
from xling.eval.rows.suite import Example, suites
from xling.eval.run.plan import expand
from xling.eval.scores.score_file import AVERAGE, Score
from xling.eval.tables.groups import GROUPS, group_notes, group_scores
from xling.eval.tables.published import (
    PUBLISHED_FILE,
    check_average,
    published_scores,
    read_published,
    reasons_not_comparable,
    trained_rows,
)
from xling.eval.tables.score_table import language_table
from xling.text.document import Document, Ledger


def test_every_published_number_is_cited_and_of_a_known_suite() -> None:
    rows = read_published()
    assert len({(r.system, r.suite, r.metric, r.protocol) for r in rows}) == len(rows)
    for row in rows:
        assert row.paper
        assert row.table
        assert row.metric in METRICS
        assert row.protocol in ("none", *PROTOCOLS)
        assert set(row.values) - {AVERAGE} <= {*suites()[row.suite].languages}
        assert all(0 < value <= 100 for value in row.values.values())
        assert AVERAGE not in row.values or len(row.values) > 1 or row.over
        if AVERAGE in row.values and len(row.values) > 1:
            assert set(row.values) - {AVERAGE} == {*suites()[row.suite].languages}
    systems = " ".join(r.system for r in rows)
    for name in ("mBERT", "XLM ", "XLM-R", "Unicoder", "InfoXLM", "ERNIE-M", "mT5", "LASER"):
        assert name in systems


def test_the_audit_finds_wrong_arithmetic(tmp_path: Path) -> None:
    assert check_average({"average": 75.0, "en": 80.0, "de": 70.1}) == ""
    assert "75.0 printed, 76.00 computed from 2" in check_average({"average": 75.0, "en": 80.0, "de": 72.0})
    assert "average over de, which have no score" in check_average(
        {"average": 75.0, "en": 80.0}, ["en", "de"]
    )
    document = yaml.safe_load(PUBLISHED_FILE.read_text())
    row = next(e for e in document if e["metric"] == "mlqa_f1" and "XLM-R large" in e["systems"])
    row["systems"]["XLM-R large"]["hi"] = 62.9  # as the ERNIE repository prints it
    path = tmp_path / "published.yaml"
    path.write_text(yaml.safe_dump(document))
    with pytest.raises(UserError, match=r"entry \d+, XLM-R large: average 70\.7 printed, 69\.79 computed"):
        read_published(path)
    del row["table"]
    path.write_text(yaml.safe_dump(document))
    read_published.cache_clear()
    with pytest.raises(UserError, match=r"entry \d+ has no 'table'"):
        read_published(path)


def test_published_columns_stand_beside_ours() -> None:
    ours = [Score("xnli", lang, "accuracy", 50.0, 10, 1) for lang in ("en", "de")]
    both = [*ours, *published_scores(ours)]
    table = language_table(both)
    assert "XLM-R base (published, not comparable)" in table.columns
    assert not any("XLM-R" in c and "TRANSLATE" in c for c in table.columns)
    assert any("Ouyang et al. 2021" in note for note in table.notes)
    assert [line.name for line in table.lines][:2] == ["en", "de"]
    place = table.columns.index("XLM-R base (published, not comparable)")
    (row,) = [line for line in table.lines if line.name == "average as published"]
    assert row.cells[place].value == 76.2
    assert not published_scores([Score("toy_ner", "en", "span_f1", 1.0, 1, 1)])


def test_whether_a_published_number_is_comparable_is_checked(tmp_path: Path) -> None:
    (row,) = [
        r
        for r in read_published()
        if (r.system, r.suite, r.protocol) == ("ERNIE-M base", "xnli", "zero_shot")
    ]
    how = "accuracy:1|train:xnli|shots:0|fit:1|data:2|seed:1|checkpoint:3"
    langs = suites()["xnli"].languages
    alike = [
        Score("xnli", x, "accuracy", 50.0, 9, 1, signature=how.replace("|shots", "|rows:392000|shots"))
        for x in langs
    ]
    control = Score("xnli", "sw", "accuracy", 1.0, 9, 1, "ngram", split="dev")
    assert reasons_not_comparable(row, [*alike, control]) == []
    assert {s.system for s in published_scores(alike)} >= {"ERNIE-M base (published)"}
    for changed, reason in (
        ({"signature": how.replace("|shots", "|rows:2000|shots")}, "trained on 392,702 rows, ours on 2,000"),
        ({"signature": how}, "trained on 392,702 rows, of ours it is not recorded"),
        ({"split": "dev"}, "scored on test rows, ours on dev rows"),
    ):
        assert reasons_not_comparable(row, [replace(s, **changed) for s in alike]) == [reason]
    assert reasons_not_comparable(row, alike[:4]) == ["its average is over 15 languages, ours over 4 of them"]
    six = next(r for r in read_published() if r.system == "mBERT uncased")
    assert reasons_not_comparable(six, alike[:4]) == [], "scores of single languages need no others"
    (bucc,) = [r for r in read_published() if r.suite == "bucc"]
    ours = [
        Score("bucc", "fr", "mining_f1", 1.0, 9, -1, protocol="none", source="", signature="m|layer:4|data:1")
    ]
    assert reasons_not_comparable(bucc, ours) == [
        "scored on train rows, ours on test rows",
        "the source states no layer, pooling and distance; ours layer:4",
    ]
    assert reasons_not_comparable(replace(bucc, vectors="layer:8", split="test"), ours) == [
        "found by layer:8, ours by layer:4"
    ]
    assert reasons_not_comparable(replace(bucc, vectors="layer:4", split="test"), ours) == []
    (name,) = {s.signature for s in published_scores(ours) if s.system.startswith("LASER")}
    assert "note: measured on the training split" in name
    assert "Not comparable: scored on train rows" in name


def test_training_rows_are_counted_where_a_signature_has_no_number(world: Path) -> None:
    def trained(protocol: str, limit: str = "") -> int | None:
        made = f"accuracy:1|train:toy_xnli{limit}|shots:0|fit:1|data:2"
        score = Score("toy_xnli", "de", "accuracy", 50.0, 9, 1, signature=made, protocol=protocol)
        return trained_rows(score, ("en", "de", "sw"), world)

    assert trained("zero_shot") == 24
    assert trained("zero_shot", "|rows:10") == 10
    assert trained("zero_shot", "|rows:2000") == 24, "no more than there are"
    assert trained("translate_train_all") == 72
    assert trained("translate_train_all", "|rows:10x3") == 30
    assert trained("zero_shot", "/dev") == 6
    assert (
        trained_rows(Score("toy_xnli", "de", "accuracy", 1.0, 9, 1, signature="accuracy:1|fine-tuned"), ())
        is None
    )


def test_the_languages_of_a_printed_average_are_those_of_the_suite() -> None:
    for row in read_published():
        if row.over[:1].isdigit():
            assert int(row.over.split()[0]) == len(suites()[row.suite].languages), row


def full(suite: str, metric: str, value: float, gone: str = "") -> list[Score]:
    return [Score(suite, x, metric, value, 9, 1) for x in suites()[suite].languages if x != gone]


def mbert_on_xtreme() -> list[Score]:
    """mBERT's row of XTREME's table 2: the paper prints the average 59.6."""
    return [
        *full("xnli", "accuracy", 65.4),
        *full("pawsx", "accuracy", 81.9),
        *full("udpos", "tag_f1", 70.3),
        *full("panx", "span_f1", 62.2),
        *full("xquad", "squad_f1", 64.5),
        *full("xquad", "squad_em", 49.4),
        *full("mlqa", "mlqa_f1", 61.4),
        *full("mlqa", "mlqa_em", 44.2),
        *full("tydiqa_gold", "squad_f1", 59.7),
        *full("tydiqa_gold", "squad_em", 43.9),
        *full("bucc", "mining_f1", 56.7),
        *full("tatoeba", "retrieval_accuracy", 38.7),
    ]


def test_the_average_of_xtreme_is_the_paper_s() -> None:
    (found,) = group_scores(GROUPS["xtreme"], mbert_on_xtreme())
    assert found.average == pytest.approx(59.6, abs=0.05)
    assert found.tasks["XQuAD"] == pytest.approx((64.5 + 49.4) / 2)
    assert not found.missing


def test_a_group_with_a_hole_has_no_average() -> None:
    scores = [s for s in mbert_on_xtreme() if s.suite not in ("bucc", "panx")] + full(
        "panx", "span_f1", 62.2, "yo"
    )
    (found,) = group_scores(GROUPS["xtreme"], scores)
    assert found.average is None
    assert found.missing == ("NER in yo", "BUCC")
    (allowed,) = group_scores(GROUPS["xtreme"], scores, allow_missing=True)
    assert allowed.average is not None
    assert "NER" in allowed.tasks
    (note,) = group_notes(GROUPS["xtreme"], scores)
    assert note.startswith("xtreme, pretrained: no average (")
    assert note.endswith("missing: NER in yo; BUCC.")
    halved = [s for s in mbert_on_xtreme() if s.metric != "mlqa_em"]
    (half,) = group_scores(GROUPS["xtreme"], halved, allow_missing=True)
    assert "MLQA" not in half.tasks, "a task counts with all of its metrics or not at all"
    (xglue,) = group_scores(GROUPS["xglue"], scores)
    assert {"NC", "QADSM", "WPR", "QAM"} <= set(xglue.missing)
    with pytest.raises(UserError, match="no scores of a suite of xtreme"):
        group_scores(GROUPS["xtreme"], [Score("toy_ner", "en", "span_f1", 1.0, 1, 1)])
    assert expand(["xtreme", "sib200"])[:3] == ["xnli", "pawsx", "udpos"]


def test_every_task_of_a_group_has_its_suite_and_metric() -> None:
    """Also that a full set of scores gives an average: ten tasks in XTREME-R, with the F1 of answers alone."""
    for group in (GROUPS[name] for name in GROUPS):
        scores = []
        for task, suite, metrics in group.tasks:
            known = set(suites()[suite].metrics) | set(suites()[suite].shape.metrics)
            assert known >= set(metrics) - {"tag_f1"}, (group.name, task, known)
            scores += [score for metric in metrics for score in full(suite, metric, 50.0)]
        (found,) = group_scores(group, scores)
        assert found.average == pytest.approx(50.0) and not found.missing, group.name
    assert [task for task, *_ in GROUPS["xtreme_r"].tasks][-3:] == ["Tatoeba", "Mewsli-X", "LAReQA"]
    assert len(expand(["xtreme_r"])) == 10


LONG = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen"


def test_every_side_of_every_kind_is_looked_for() -> None:
    fields = {
        "pair": ({"text_a": "a", "text_b": "b"}, "neutral", {"text_a": "a", "text_b": "b"}),
        "tag": ({"tokens": ("a", "b")}, ("O", "O"), {"tokens": "a b"}),
        "span": ({"context": "c", "question": "q", "paragraph": 1}, (("c", 0),), {"context": "c", "question": "q"}),
        "mt": ({"text": "a"}, "b", {"text": "a", "reference": "b"}),
        "choice": (
            {"premise": "p", "question": "cause", "choices": ("a", "b")}, 0,
            {"premise": "p", "choice0": "a", "choice1": "b"},
        ),
        "bli": ({"word": "a"}, ("b", "c"), {"entry": "a b"}),
        "mining": ({"text": "a", "side": "tgt"}, (), {"tgt": "a"}),
    }  # fmt: skip
    for kind, (given, label, wanted) in fields.items():
        assert KINDS[kind].passages(Example("0", given, label)) == wanted


def test_the_index_of_all_suites_is_published_and_used(world: Path, tmp_path: Path) -> None:
    (world / "nli/en.test.tsv").write_text(f"premise\thypothesis\tlabel\n{LONG}\tb\tneutral\n")
    said = row_index.run(row_index.LeaksConfig(tmp_path / "leaks", world))
    assert said.startswith("38 texts") or "texts" in said
    card = Ledger()
    docs = [
        Document("0", f"So it begins. {LONG}."),
        Document("1", "Nothing that anybody asked for in a test is here."),
    ]
    kept = list(Contamination(leaks=tmp_path / "leaks")(docs, card))
    assert [doc.id for doc in kept] == ["1"]
    assert card.notes == {"test rows of toy_xnli en test text_a": 1}
    card = Ledger()
    assert len(list(Contamination(leaks=tmp_path / "leaks", block=False)(docs, card))) == 2
    assert card.notes == {"test rows of toy_xnli en test text_a": 1}
    pairs = pl.DataFrame({"src": ["x", f"a {LONG}", "y"], "tgt": ["b", "c", "d"], "id": ["0", "1", "2"]})
    context = Context.of_pair("en-de")
    block = Overlap(leaks=tmp_path / "leaks")
    assert block.judge(pairs, context).to_list() == [None, "heldout_src", None]
    assert block.notes(pairs, context) == {"test rows of toy_xnli en test text_a": 1}
    count = replace(block, block=False)
    assert count.judge(pairs, context).to_list() == [None] * 3
    assert count.notes(pairs, context) == block.notes(pairs, context)
    with pytest.raises(UserError, match="no rows of bucc below"):
        row_index.run(row_index.LeaksConfig(tmp_path / "none", world, ("bucc",)))

"""The evaluation run: what is predicted, chosen, cached and written."""

from __future__ import annotations

import dataclasses
import hashlib
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from eval_helpers import Epochs

from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.settings import config
from xling.eval.controls.majority_ngrams import MajorityControl, NgramControl
from xling.eval.report import stage
from xling.eval.rows.protocols import PROTOCOLS
from xling.eval.rows.suite import Suite, data_digest, suites
from xling.eval.run import evaluation
from xling.eval.run.evaluation import planned_jobs
from xling.eval.run.plan import EvalPlan, Target
from xling.eval.run.settings import EvalConfig
from xling.eval.scores import predictions, score_file
from xling.eval.scores.score_file import read_scores
from xling.eval.systems import Backend
from xling.eval.tables import publish
from xling.eval.tables.publish import RescoreConfig, TableConfig

RIGHT = {"en": [4, 12, 12, 6], "sw": [12, 3, 6, 9], "de": [0, 6, 12, 12]}


def settings(world: Path, **changes: Any) -> EvalConfig:
    return dataclasses.replace(
        EvalConfig(("toy_xnli",), world.parent / "out", world, systems=("majority",), seeds=(1, 2)), **changes
    )


def values(cfg: EvalConfig, **wanted: Any) -> dict[str, float]:
    rows = read_scores(cfg.out / "tables/scores.json")
    return {r.lang: r.value for r in rows if all(getattr(r, k) == v for k, v in wanted.items())}


def digest(folder: Path) -> str:
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.name != "manifest.json")
    return hashlib.sha256(b"".join(p.name.encode() + p.read_bytes() for p in files)).hexdigest()


def test_every_way_of_choosing_side_by_side(world: Path) -> None:
    cfg = settings(world, select=("source-dev", "last", "averaged"))
    text = evaluation.evaluate_systems(cfg, [Epochs(RIGHT), MajorityControl()])
    assert values(cfg, select="source-dev", seed=1) == pytest.approx({"en": 100.0, "sw": 25.0, "de": 50.0})
    assert values(cfg, select="last", seed=2) == pytest.approx({"en": 100.0, "sw": 50.0, "de": 100.0, })  # fmt: skip
    assert values(cfg, select="averaged", seed=1) == pytest.approx({"en": 50.0, "sw": 75.0, "de": 100.0})
    assert values(cfg, system="majority") == pytest.approx(dict.fromkeys(("en", "sw", "de"), 100 / 3))
    for name in ("pretrained source-dev", "pretrained last", "pretrained averaged", "majority"):
        assert name in text
    assert "SYNTHETIC" in text
    assert {p.name for p in (cfg.out / "tables").iterdir()} == {
        *(f"table.{x}" for x in ("md", "csv", "tex", "json", "html")),
        "scores.json",
        "manifest.json",
    }


def test_oracle_chooses_on_the_target_and_is_marked(world: Path) -> None:
    right = {"en": [4, 12, 12, 6], "sw": [6, 3, 2, 9], "de": [0, 6, 12, 12]}
    cfg = settings(world, select=("source-dev", "oracle"))
    text = evaluation.evaluate_systems(cfg, [Epochs(right)])
    assert values(cfg, select="oracle", seed=1) == pytest.approx({"en": 100.0, "sw": 50.0, "de": 50.0})
    assert "not a zero-shot result" in text
    (world / "nli/sw.test.tsv").unlink()
    with pytest.raises(UserError, match="scored rows of toy_xnli in 'sw' are its dev rows"):
        evaluation.evaluate_systems(settings(world, select=("oracle",)), [Epochs(right, "e" * 64)])


def test_a_rerun_predicts_nothing_and_leaves_the_tables_as_they_are(world: Path) -> None:
    cfg = settings(world)
    system = Epochs(RIGHT)
    first = evaluation.evaluate_systems(cfg, [system, MajorityControl()])
    before, calls = digest(cfg.out), len(system.calls)
    manifest = (cfg.out / "tables/manifest.json").stat().st_mtime_ns
    assert evaluation.evaluate_systems(cfg, [system, MajorityControl()]) == first
    assert (digest(cfg.out), len(system.calls)) == (before, calls)
    assert (cfg.out / "tables/manifest.json").stat().st_mtime_ns == manifest
    import shutil

    shutil.rmtree(cfg.out / "tables")
    assert evaluation.evaluate_systems(cfg, [system, MajorityControl()]) == first
    assert digest(cfg.out) == before, "tables made again from saved predictions are the same bytes"
    assert len(system.calls) == calls


def test_what_a_killed_process_left_is_not_published(world: Path) -> None:
    cfg = settings(world)
    evaluation.evaluate_systems(cfg, [Epochs(RIGHT)])
    torn, kept = (cfg.out / "predictions" / name for name in (".sw.test.parquet.14567.tmp", ".mine.tmp"))
    torn.write_text("PAR1")
    kept.touch()
    evaluation.evaluate_systems(cfg, [Epochs(RIGHT)])
    assert kept.exists() and not torn.exists()


def test_only_what_changed_is_predicted_again(world: Path) -> None:
    cfg = settings(world)
    evaluation.evaluate_systems(cfg, [Epochs(RIGHT)])
    (cfg.out / "predictions/toy_xnli/pretrained/zero_shot.source-dev.en.seed2/sw.test.parquet").unlink()
    again = Epochs(RIGHT)
    evaluation.evaluate_systems(cfg, [again])
    assert [c for c in again.calls if c[0] == "fit"] == [("fit", "toy_xnli", 2)]
    assert [c for c in again.calls if c[:2] == ("predict", "sw")] == [("predict", "sw", 12)]
    other = Epochs(RIGHT, digest="e" * 64)
    evaluation.evaluate_systems(cfg, [other])
    assert len([c for c in other.calls if c[0] == "fit"]) == 2
    path = world / "nli/en.train.tsv"
    path.write_text(path.read_text() + "a new\trow\tneutral\n")
    evaluation.evaluate_systems(cfg, [again])
    assert len([c for c in again.calls if c[0] == "fit"]) == 3, "changed training rows train again"


def test_changed_gold_rows_are_scored_again(world: Path) -> None:
    cfg = settings(world)
    evaluation.evaluate_systems(cfg, [MajorityControl()])
    path = world / "nli/sw.test.tsv"
    path.write_text(path.read_text().replace("\tneutral", "\tcontradiction"))
    evaluation.evaluate_systems(cfg, [MajorityControl()])
    assert values(cfg)["sw"] == pytest.approx(200 / 3)


def test_a_column_of_two_trainings_or_two_checkpoints_is_refused(world: Path) -> None:
    cfg = settings(world, langs=("en", "sw", "de"), seeds=(1,))
    evaluation.evaluate_systems(dataclasses.replace(cfg, train_rows=6), [Epochs(RIGHT), MajorityControl()])
    evaluation.evaluate_systems(dataclasses.replace(cfg, langs=("en", "de")), [MajorityControl()])
    with pytest.raises(
        UserError,
        match=r"toy_xnli, majority, seed -1: one column of several models: de en by .*; sw by .*rows:6",
    ):
        publish.rescore(RescoreConfig(cfg.out, world))
    evaluation.evaluate_systems(dataclasses.replace(cfg, langs=("sw",)), [MajorityControl()])
    assert "majority" in publish.rescore(RescoreConfig(cfg.out, world))
    other = Epochs(RIGHT, digest="e" * 64)
    evaluation.evaluate_systems(dataclasses.replace(cfg, langs=("sw",), train_rows=6), [other])
    with pytest.raises(UserError, match=r"checkpoint:dddddddddddd; sw by .*checkpoint:eeeeeeeeeeee"):
        publish.rescore(RescoreConfig(cfg.out, world))


def test_a_language_that_was_answered_twice_is_refused(world: Path) -> None:
    cfg = settings(world, langs=("en", "sw"), seeds=(1,))
    evaluation.evaluate_systems(cfg, [MajorityControl()])
    path = next(p for p in predictions.files(cfg.out / "predictions") if p.name == "sw.test.parquet")
    shutil.copy(path, path.with_name("de.test.parquet"))
    with pytest.raises(
        UserError, match=r"majority, seed -1: two files of answers in sw, to test and test rows"
    ):
        publish.rescore(RescoreConfig(cfg.out, world))


def test_a_signature_says_how_many_rows_were_trained_on(world: Path) -> None:
    def signed(protocol: str) -> str:
        cfg = settings(world, protocol=protocol, seeds=(1,), train_rows=6, langs=("en", "sw", "de"))
        cfg = dataclasses.replace(cfg, out=cfg.out / protocol)
        evaluation.evaluate_systems(cfg, [Epochs(RIGHT)], lambda texts, src, tgt: list(texts))
        file = next(p for p in predictions.files(cfg.out / "predictions") if p.name.startswith("sw."))
        return predictions.read_origin(file).extra

    assert "|rows:6|" in signed("zero_shot")
    assert "|rows:6|" in signed("translate_train"), "the six rows of one language"
    assert "|rows:6x3|" in signed("translate_train_all"), "six rows of each of three languages"


def test_models_of_one_language_each_are_one_column(world: Path) -> None:
    cfg = settings(world, protocol="few_shot", shots=1, seeds=(1,), langs=("sw", "de"))
    evaluation.evaluate_systems(cfg, [Epochs(RIGHT)])
    assert "pretrained" in publish.rescore(RescoreConfig(cfg.out, world))


def test_gold_that_changed_after_the_prediction_is_refused(world: Path) -> None:
    cfg = settings(world, langs=("en", "sw"), seeds=(1,))
    evaluation.evaluate_systems(cfg, [Epochs(RIGHT)])
    path = world / "nli/sw.test.tsv"
    head, *rows = path.read_text().splitlines()
    path.write_text("\n".join([head, *reversed(rows)]) + "\n")
    with pytest.raises(UserError) as caught:
        publish.rescore(RescoreConfig(cfg.out, world))
    told = str(caught.value)
    now = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    assert now in told and len(set(re.findall(r"[0-9a-f]{12}", told))) == 2
    assert f"xling eval toy_xnli langs=sw systems=pretrained out={cfg.out}" in told
    evaluation.evaluate_systems(cfg, [Epochs(RIGHT)])
    assert "pretrained" in publish.rescore(RescoreConfig(cfg.out, world)), "predicted anew"


def test_named_languages_must_be_there(world: Path) -> None:
    cfg = settings(world, langs=("en", "sw"))
    evaluation.evaluate_systems(cfg, [MajorityControl()])
    assert set(values(cfg)) == {"en", "sw"}
    with pytest.raises(UserError, match="no test rows in 'xx'"):
        evaluation.evaluate_systems(settings(world, langs=("xx",)), [MajorityControl()])
    with pytest.raises(UserError, match="no rows of sib200 below"):
        evaluation.evaluate_systems(settings(world, suites=("sib200",)), [MajorityControl()])
    with pytest.raises(UserError, match=r"unknown suite 'toy_xnl'.*'toy_xnli'"):
        evaluation.run(settings(world, suites=("toy_xnl",)))
    with pytest.raises(UserError, match=r"unknown way of choosing a checkpoint 'dev'"):
        evaluation.run(settings(world, select=("dev",)))
    with pytest.raises(UserError, match="no suite is named"):
        evaluation.run(settings(world, suites=()))


def test_few_shot_has_a_model_per_language(world: Path) -> None:
    cfg = settings(world, protocol="few_shot", shots=1, seeds=(1,), langs=("sw", "de"))
    system = Epochs(RIGHT)
    evaluation.evaluate_systems(cfg, [system])
    assert len([c for c in system.calls if c[0] == "fit"]) == 2
    assert all(r.protocol == "few_shot" for r in read_scores(cfg.out / "tables/scores.json"))


def test_controls_of_tags_and_pairs(world: Path) -> None:
    cfg = settings(world, suites=("toy_ner", "toy_xnli"))
    evaluation.evaluate_systems(cfg, [NgramControl(), MajorityControl()])
    assert values(cfg, suite="toy_ner", system="ngram")["en"] == 100
    assert values(cfg, suite="toy_xnli", system="ngram")["en"] == 100
    assert values(cfg, suite="toy_ner", system="majority") == dict.fromkeys(("en", "sw", "de"), 0.0)


def plan_of(cfg: EvalConfig, *targets: Target) -> EvalPlan:
    return EvalPlan(cfg, cfg.data or Path(), (targets,), PROTOCOLS[cfg.protocol], cfg.out / "predictions")


def from_vectors(cfg: EvalConfig, system: Backend, suite: Suite, *langs: str) -> list[Path]:
    """Predict a suite of retrieval and return the files."""
    assert cfg.data
    digests = [data_digest(suite, lang, "test", cfg.data) for lang in langs]
    plan = plan_of(
        cfg, *(Target(suite, lang, "test", digest) for lang, digest in zip(langs, digests, strict=True))
    )
    (job,) = planned_jobs(plan, [system])
    evaluation.predict(plan, job)
    return [origin.path(plan.predictions) for origin in job.origins]


def test_retrieval_is_cached_by_model_and_texts(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "tatoeba").mkdir(parents=True)
    for code in ("deu", "swh"):
        (data / f"tatoeba/{code}-eng.{code}").write_text("eins zwei\ndrei vier\nfünf sechs\n")
        (data / f"tatoeba/{code}-eng.eng").write_text("eins zwo\ndrei vier fuenf\nsechs fünf\n")
    import xling.eval.rows.suite

    suite = dataclasses.replace(suites()["tatoeba"], files=())
    cfg = EvalConfig(("tatoeba",), tmp_path / "out", data)
    (path,) = from_vectors(cfg, NgramControl(), suite, "de")
    rows = xling.eval.rows.suite.load(suite, "de", "test", data)
    from xling.eval.scores import predictions

    assert predictions.read(path, rows) == [0, 1, 2]
    system = Epochs({})
    from_vectors(cfg, system, suite, "de", "sw")
    assert len(system.calls) == 3, "both pairs have the same English side"
    from_vectors(dataclasses.replace(cfg, distance="csls"), system, suite, "de")
    assert len(system.calls) == 3, "another distance needs no forward pass"
    centred = dataclasses.replace(cfg, centred=True)
    (other,) = from_vectors(centred, system, suite, "de")
    assert len(system.calls) == 3 and "|centred" in predictions.read_origin(other).extra
    with pytest.raises(UserError, match=r"match=3.* for pretrained; valid: a static encoder"):
        from_vectors(dataclasses.replace(cfg, match=3.0), system, suite, "de")
    random = Epochs({})
    random.name = "random"
    from_vectors(cfg, random, suite, "de")
    assert len(random.calls) == 2, "a control with the same checkpoint has vectors of its own"
    from_vectors(dataclasses.replace(cfg, layer=3), system, suite, "de")
    assert len(system.calls) == 5


def test_mining_and_dictionaries_end_to_end(tmp_path: Path) -> None:
    folder = tmp_path / "data/bucc2018"
    folder.mkdir(parents=True)
    words = ["alpha", "bravo", "delta", "gamma", "kappa", "sigma", "theta", "zeta"]
    for split in ("training", "sample"):
        (folder / f"fr-en.{split}.fr").write_text("".join(f"fr-{i}\t{w}\n" for i, w in enumerate(words)))
        (folder / f"fr-en.{split}.en").write_text("".join(f"en-{i}\t{w}s\n" for i, w in enumerate(words[:5])))
        (folder / f"fr-en.{split}.gold").write_text("".join(f"fr-{i}\ten-{i}\n" for i in range(5)))
    cfg = EvalConfig(("bucc",), tmp_path / "out", tmp_path / "data", seeds=(1,))
    evaluation.evaluate_systems(cfg, [NgramControl()])
    assert values(cfg) == {"fr": 100.0}
    (tmp_path / "data/bli").mkdir()
    (tmp_path / "data/bli/en-xx.train5k.tsv").write_text("water\twata\nfire\tfaya\n")
    (tmp_path / "data/bli/en-xx.test2k.tsv").write_text("house\thous\nmouse\tmous\n")
    cfg = dataclasses.replace(cfg, suites=("bli",), out=tmp_path / "out2", langs=("en-xx",))
    evaluation.evaluate_systems(cfg, [NgramControl()])
    assert values(cfg) == {"en-xx": 100.0}


def test_vectors_must_match_their_texts(tmp_path: Path) -> None:
    class Short(NgramControl):
        def embed(self, texts: Any, lang: str, layer: int, pooling: str) -> Any:
            return np.ones((1, 4), dtype=np.float32)

    with pytest.raises(AssertionError):
        evaluation.vectors(plan_of(EvalConfig((), tmp_path)), Short(), ["a", "b"], "en")


def test_the_signature_says_how_a_system_makes_its_vectors(tmp_path: Path) -> None:
    class Own(NgramControl):
        def vector_name(self, layer: int, pooling: str) -> str:
            return "own(cls,dense)" if (layer, pooling) == (-1, "mean") else pooling

    folder = tmp_path / "data/bli"
    folder.mkdir(parents=True)
    (folder / "en-xx.train5k.tsv").write_text("water\twata\nfire\tfaya\n")
    (folder / "en-xx.test2k.tsv").write_text("house\thous\nmouse\tmous\n")
    for number, (system, more, name) in enumerate(
        ((Own(), {}, "own(cls,dense)"), (Own(), {"pooling": "cls"}, "cls"), (NgramControl(), {}, "mean"))
    ):
        out = tmp_path / str(number)
        cfg = EvalConfig(("bli",), out, tmp_path / "data", langs=("en-xx",), seeds=(1,), **more)
        evaluation.evaluate_systems(cfg, [system])
        assert f"|layer:-1|pooling:{name}|distance:cosine|" in (out / "tables" / "scores.json").read_text()


def test_published_columns_groups_and_corpus_sizes(world: Path, tmp_path: Path) -> None:
    sizes = tmp_path / "sizes.tsv"
    sizes.write_text("sw\t1\nde\t2\n")
    cfg = settings(world, table=TableConfig("With sizes", published=True, by=("script",), corpus_sizes=sizes))
    text = evaluation.evaluate_systems(cfg, [MajorityControl()])
    assert "## With sizes" in text
    assert "script Latn" in text


def test_rescoring_needs_no_model_and_no_order(world: Path) -> None:
    cfg = settings(world)
    first = evaluation.evaluate_systems(cfg, [Epochs(RIGHT), MajorityControl()])
    before = digest(cfg.out)
    assert publish.rescore(RescoreConfig(cfg.out, world, cfg.table)) == first
    table = TableConfig("Again")
    text = publish.rescore(RescoreConfig(cfg.out, world, table, num_workers=2))
    assert text == first.replace("Cross-lingual transfer", "Again")
    publish.rescore(RescoreConfig(cfg.out, world, cfg.table))
    assert digest(cfg.out) == before


def test_settings_are_read_from_the_command_line(tmp_path: Path) -> None:
    cfg = config.load(
        EvalConfig, None, ["suites=xnli,panx", f"out={tmp_path}", "seeds=3,4", "fit.lr=1e-3", "distance=csls"]
    )
    assert (cfg.suites, cfg.seeds, cfg.fit.lr, cfg.distance) == (("xnli", "panx"), (3, 4), 1e-3, "csls")
    with pytest.raises(UserError, match=r"unknown setting 'fit\.learning'"):
        config.load(EvalConfig, None, ["suites=xnli", f"out={tmp_path}", "fit.learning=1"])


def test_changed_test_rows_are_predicted_again(world: Path) -> None:
    cfg = settings(world, langs=("en", "sw"), seeds=(1,))
    evaluation.evaluate_systems(cfg, [Epochs(RIGHT)])
    path = world / "nli/sw.test.tsv"
    path.write_text(path.read_text().replace("sw A dog", "sw A cat"))
    again = Epochs(RIGHT)
    evaluation.evaluate_systems(cfg, [again])
    assert [c for c in again.calls if c[0] == "predict" and c[1] != "en"] == [("predict", "sw", 12)]
    path.write_text(path.read_text() + "one\trow more\tneutral\n")
    evaluation.evaluate_systems(cfg, [again])
    assert again.calls[-1] == ("predict", "sw", 13), "another number of rows is no mistake"
    calls = len(again.calls)
    evaluation.evaluate_systems(cfg, [again])
    assert len(again.calls) == calls


def test_changed_texts_are_embedded_again(tmp_path: Path) -> None:
    folder = tmp_path / "data/bli"
    folder.mkdir(parents=True)
    (folder / "en-xx.train5k.tsv").write_text("water\twata\nfire\tfaya\n")
    (folder / "en-xx.test2k.tsv").write_text("house\thous\nmouse\tmous\n")
    cfg = EvalConfig(("bli",), tmp_path / "out", tmp_path / "data", langs=("en-xx",))
    evaluation.evaluate_systems(cfg, [Epochs({})])
    for name, text in (("test2k", "house\thous\nhorse\thos\n"), ("train5k", "water\twata\n")):
        (folder / f"en-xx.{name}.tsv").write_text(text)
        again = Epochs({})
        evaluation.evaluate_systems(cfg, [again])
        assert again.calls, f"the words of {name} are among those chosen from"


def test_seed_0_is_a_seed_of_its_own_and_none_is_negative(world: Path) -> None:
    system = Epochs(RIGHT)
    evaluation.evaluate_systems(settings(world, seeds=(0, 1)), [system])
    assert [c for c in system.calls if c[0] == "fit"] == [("fit", "toy_xnli", 0), ("fit", "toy_xnli", 1)]
    with pytest.raises(UserError, match=r"seeds=-2; valid: whole numbers from 0"):
        evaluation.evaluate_systems(settings(world, seeds=(1, -2)), [system])


def test_translated_rows_are_in_the_language_of_the_training_rows(world: Path) -> None:
    system = Epochs(RIGHT)
    cfg = settings(world, protocol="translate_test", langs=("sw",), seeds=(1,))
    evaluation.evaluate_systems(cfg, [system], lambda texts, src, tgt: list(texts))
    assert system.calls[-1] == ("predict", "en", 12)


def test_the_finished_output_of_another_command_is_not_written_into(world: Path) -> None:
    out = world.parent / "lid"
    with manifest.publish(out, "corpus langid-train", {}):
        pass
    with pytest.raises(UserError, match="lid was made by 'corpus langid-train', not by 'eval'"):
        evaluation.evaluate_systems(settings(world, out=out), [Epochs(RIGHT)])
    assert [path.name for path in out.iterdir()] == [manifest.FILE_NAME]


@pytest.mark.parametrize("wrong", [{"num_workers": 0}, {"out": None}])
def test_what_cannot_work_is_said_before_anything_is_trained(world: Path, wrong: dict[str, Any]) -> None:
    if "out" in wrong:
        wrong["out"] = world.parent / "a file"
        wrong["out"].write_text("")
    system = Epochs(RIGHT)
    with pytest.raises(
        UserError, match=r"num_workers=0; valid: a whole number from 1|a file is not a folder"
    ):
        evaluation.evaluate_systems(settings(world, **wrong), [system])
    assert not system.calls


def test_rescoring_asks_for_at_least_one_process(world: Path) -> None:
    cfg = settings(world)
    evaluation.evaluate_systems(cfg, [MajorityControl()])
    with pytest.raises(UserError, match="num_workers=0; valid: a whole number from 1"):
        publish.rescore(RescoreConfig(cfg.out, world, cfg.table, num_workers=0))


def test_averages_have_intervals_in_the_table_the_scores_and_the_report(world: Path) -> None:
    cfg = settings(world, langs=("en", "sw", "de"), seeds=(1, 2))
    text = evaluation.evaluate_systems(cfg, [Epochs(RIGHT), MajorityControl()])
    assert "Intervals of averages are 95 %: items are drawn in all languages and seeds at once" in text
    averages = score_file.read_averages(cfg.out / "tables/scores.json")
    assert {(a.system, a.is_gap, a.langs) for a in averages} == {
        (system, is_gap, ("de", "sw") if without else ("en", "de", "sw"))
        for system in ("pretrained", "majority")
        for is_gap, without in ((False, True), (False, False), (True, True))
    }
    (mine,) = [a for a in averages if a.system == "pretrained" and a.langs[0] == "en"]
    scores = [s for s in read_scores(cfg.out / "tables/scores.json") if s.system == "pretrained"]
    assert mine.low < sum(s.value for s in scores) / len(scores) < mine.high
    shown = f"{mine.low:.1f}–{mine.high:.1f}"
    (line,) = [x for x in text.splitlines() if x.startswith("| **average** ")]
    assert shown in line
    stage.run(stage.ReportConfig((str(cfg.out),), cfg.out.parent / "report", data=world))
    assert shown in (cfg.out.parent / "report/report.md").read_text(encoding="utf-8")


def test_mtebs_protocol_adds_its_f1_and_refuses_what_changes_the_cosine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    (data / "tatoeba").mkdir(parents=True)
    (data / "tatoeba/deu-eng.deu").write_text("eins zwei\neins drei\nfünf sechs\nsieben\n")
    (data / "tatoeba/deu-eng.eng").write_text("eins\nnothing\nfünf sechs\nsieben\n")
    from xling.eval.run import unused
    from xling.eval.scores import predictions

    suite = dataclasses.replace(suites()["tatoeba"], files=())
    monkeypatch.setitem(suites()._entries, "tatoeba", suite)  # without the digests of its files
    scores = {}
    for protocol in ("zero_shot", "mteb"):
        cfg = EvalConfig(("tatoeba",), tmp_path / "out", data, protocol=protocol)
        (path,) = from_vectors(cfg, NgramControl(), suite, "de")
        scores[protocol] = {each.metric.name: each.value for each in predictions.evaluate_file(path, data)}
    assert scores["zero_shot"] == {"retrieval_accuracy": 75}
    # The first text is found twice: its F1 is 2/3. The second is never found.
    assert scores["mteb"] == pytest.approx({"retrieval_accuracy": 75, "retrieval_f1": 100 * (2 / 3 + 2) / 4})
    unused.check(cfg, [suite])
    for changes, named in (({"centred": True}, "centred=True"), ({"distance": "csls"}, "distance=csls")):
        with pytest.raises(UserError, match=f"protocol=mteb is given with {named}"):
            unused.check(dataclasses.replace(cfg, **changes), [suite])
    with pytest.raises(UserError, match="protocol=mteb is given with sib200"):
        unused.check(dataclasses.replace(cfg, suites=("sib200",)), [suites()["sib200"]])

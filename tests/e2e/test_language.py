"""`xling language` from a data folder to its report, on two languages whose words are ciphers of each other."""

from __future__ import annotations

import json
import re
import string
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from browser import Browser

from tests.e2e.test_hour import NUM_WORDS, rows_of, sentence, write_rows
from tests.e2e.test_recipes_killed import MODULES
from tests.killed import attempts
from xling import cli
from xling.core.commands import pipeline
from xling.core.errors import UserError
from xling.core.output import manifest, source_version
from xling.eval.rows.suite import load, suites
from xling.eval.scores import predictions
from xling.eval.scores.predictions import Origin
from xling.language import closing_report, plan, survey, text_steps, times
from xling.language.body import shape_of
from xling.language.holdings import Holdings, look
from xling.language.plan import make_plan
from xling.language.settings import LanguageConfig

SUITES = {"sib200": "classify", "panx": "spans", "ntrex": "retrieval"}
SMALL_FITS = [f"panx_{model}.fit.epochs=1" for model in ("static", "less_text", "less_labels")]

SMALL_MODELS = [
    f"{model}.model.{size}" for model in ("static", "static_less") for size in ("dim=32", "bits=12")
]
SMALL_MODELS += ["transformer_model.train.updates=2", "transformer_model.train.batch_tokens=512"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """600 aligned rows of German and English, German text, and rows of three suites."""
    rng, folder = np.random.default_rng(1), tmp_path / "data"
    (folder / "seed").mkdir(parents=True)
    (folder / "mono").mkdir()
    rows = rng.integers(0, NUM_WORDS, (600, 8))
    for code, lang in (("eng_Latn", "en"), ("deu_Latn", "de")):
        text = "".join(" ".join(sentence(lang, row)) + "\n" for row in rows.tolist())
        (folder / "seed" / f"{code}.txt").write_text(text, encoding="utf-8")
    (folder / "mono" / "test.de.txt").write_text("Das steht in einer Testdatei.\n", encoding="utf-8")
    for suite, kind in SUITES.items():
        for lang in ("en", "de"):
            for split, count in (("train", 80), ("dev", 20), ("test", 40)):
                if (lang, split) == ("de", "train") or (
                    kind == "retrieval" and (split != "test" or lang == "en")
                ):
                    continue
                drawn = rng.integers(0, NUM_WORDS, (2, count, 8))
                write_rows(folder, suite, lang, split, rows_of(kind, lang, *drawn))
    return folder


def test_what_there_is_of_a_language(data: Path) -> None:
    (data / "mono" / "news.de.txt").write_text("Der Text einer Zeitung.\n", encoding="utf-8")
    (data / "mono" / "de").mkdir()
    (data / "mono" / "de" / "a.txt").write_text("Ein Buch.\n", encoding="utf-8")
    (data / "mono" / "dewiki-latest.xml").write_text("<mediawiki/>", encoding="utf-8")
    (data / "mono" / "german").mkdir()
    (data / "mono" / "german" / "part 1.txt").write_text("Ein Haus.\n", encoding="utf-8")
    holdings = look(data, "de", "en")
    assert holdings.texts == {
        "de": [
            f"text:{data}/mono/de/a.txt",
            f"wiki:{data}/mono/dewiki-latest.xml",
            f"text:{data}/mono/german/part 1.txt",
            f"text:{data}/mono/news.de.txt",
        ]
    }
    assert holdings.pairs == {"de": {"seed": 600}}
    assert holdings.suites == ["ntrex", "panx", "sib200"] and not holdings.own_labels
    assert holdings.num_labels == {"panx": 80, "sib200": 80}
    assert "xnli" in holdings.lacking and "udpos" in holdings.lacking


def test_relatives_are_of_the_family_and_the_script_first() -> None:
    words = {"sw": "a b c d", "lg": "a x y z", "zu": "a b y z", "fr": "a b c z", "ru": "a b c d", "am": "q"}
    holdings = Holdings(
        pairs={code: {"bible": 1000} for code in words},  # type: ignore[misc]
        words={code: Counter(text.split()) for code, text in words.items()},
    )
    cfg = LanguageConfig(lang="sw", data=Path())
    holdings.pairs["xh"] = Counter(bible=cfg.least - 1)
    assert text_steps.find_relatives(cfg, holdings) == ["zu", "lg", "ru"]


def test_a_language_without_text_hears_what_to_bring(data: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no text of Wolof") as error:
        survey.run(LanguageConfig(lang="wo", data=data, out=str(tmp_path / "out")))
    assert "500 translated sentences" in str(error.value)
    assert not (tmp_path / "out").exists()


def test_size_alone_asks_wikipedia_and_the_crawl(tmp_path: Path) -> None:
    cfg = LanguageConfig(lang="wo", data=tmp_path, size="2GB")
    steps = make_plan(cfg, Holdings(remote=["wiki:", f"cc-index:{cfg.dump}"]), {}, 1e11).steps
    assert steps["text_wo"]["config"]["source"] == ["wiki:", f"cc-index:{cfg.dump}"]
    assert steps["text_en"]["config"]["source"] == [f"cc-index:{cfg.dump}"] and "static" not in steps
    assert [steps[f"text_{code}"]["config"]["size"] for code in ("wo", "en")] == ["1800000000B", "200000000B"]
    text = make_plan(cfg, Holdings(remote=["wiki:"]), {}, 1e11).steps["text_wo"]
    assert text["config"]["source"] == ["wiki:"] and "size" not in text["config"]


def test_a_text_of_a_few_words_is_left_out_with_its_reason() -> None:
    cfg = LanguageConfig(lang="sw", data=Path("data"))
    for num_bytes, is_planned in ((1_999, False), (2_000, True)):
        plan_of_text = make_plan(
            cfg, Holdings(texts={"sw": ["text:a.txt"]}, text_bytes={"sw": num_bytes}), {}, 1e11
        )
        assert ("text_sw" in plan_of_text.steps) is is_planned
        assert any("1,999 bytes" in reason for *_, reason in plan_of_text.choices) is not is_planned


def test_a_body_that_is_none_is_told_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    for given, said in (
        (f"hf:{tmp_path}", "is of the type gpt2; valid: bert"),
        (f"hf:{tmp_path}/other", "no config.json there"),
    ):
        with pytest.raises(UserError, match=said):
            shape_of(given)
    assert shape_of("hf:owner/name") == {}


def test_the_transformer_s_updates_fit_its_share_of_the_hours() -> None:
    holdings = Holdings(pairs={"sw": {"bible": 9000}}, suites=["panx", "sib200", "xsid"])  # type: ignore[dict-item]
    holdings.num_labels = {"panx": 20_000, "sib200": 701}
    updates, rows = {}, {}
    for hours in (1.0, 2.0, 1000.0):
        cfg = LanguageConfig(lang="sw", data=Path("data"), body="hf:BODY", hours=hours)
        steps = make_plan(
            cfg, holdings, {"panx": "tag", "sib200": "classify", "xsid": "intent_slots"}, 1e10
        ).steps
        trained = [each for each in steps.values() if each["stage"] == "pretrain"]
        updates[hours] = [each["config"]["train"]["updates"] for each in trained]
        assert steps["sib200_transformer"]["config"]["checkpoints"][0].startswith("transformer=")
        assert steps["sib200_transformer"]["config"]["systems"] == ["pretrained", "joined"]
        assert steps["xsid_transformer"]["config"]["systems"] == ["pretrained"]
        made = pipeline.Pipeline({name: pipeline.Step(**each) for name, each in steps.items()})
        for name in made.steps:
            made.settings(name)
        rows[hours] = steps["xsid_transformer"]["config"]["train_rows"]
        assert steps["sib200_transformer"]["config"]["train_rows"] == 701
        labeller = steps["panx_model"]["config"]
        assert labeller["checkpoint"].endswith("models/static" if hours < 1000 else "transformer/model")
        assert steps["sib200_model"]["config"]["checkpoint"].endswith("transformer/model")
        assert steps["xsid_body"]["config"]["seeds"] == [1] != steps["xsid_transformer"]["config"]["seeds"]
    assert rows[1.0] == plan.LEAST_ROWS
    weights = 6 * (4 * 384 * 384 + 2 * 384 * 1536)
    row_s = (
        6 * 40 * 3 * (3 + 2) * weights / (1e10 * times.EFFICIENCY)
    )  # 3 epochs, 3 seeds, the body, a labeller
    assert rows[1000.0] == int(1000 * 3600 * plan.SCORES_SHARE / (2 * row_s)) < plan.ROWS_OF_AN_HOUR * 1000
    assert 1.8 < sum(updates[2.0]) / sum(updates[1.0]) < 2.2
    recipe = pipeline.read(pipeline.RECIPES_FOLDER / plan.TRANSFORMER, ["body=hf:BODY"])
    own = [int(step.config["train"]["updates"]) for step in recipe.steps.values() if step.stage == "pretrain"]
    assert updates[1000.0] == own


def answer(folder: Path, data: Path, system: str, right: Iterable[int], seed: int = 1) -> None:
    """Write a system's answers to the 40 German rows of SIB-200, right on some of them."""
    suite, chosen = suites()["sib200"], set(right)
    rows = load(suite, "de", "test", data)
    wrong = {label: next(each for each in suite.labels if each != label) for label in suite.labels}
    answers = [row.label if i in chosen else wrong[row.label] for i, row in enumerate(rows)]
    predictions.write(folder / "predictions", Origin("sib200", "de", "test", system, seed), rows, answers)


def facts_of(data: Path, **models: str) -> dict[str, Any]:
    suite = {"kind": "classify", "licence": "", "training_rows": 9, "own_labels": False}
    return {
        "lang": "de", "source": "en", "data": str(data), "models": models, "languages": [], "choices": [],
        "lacking": {}, "suites": {"sib200": suite},
    }  # fmt: skip


def test_translations_are_sought_where_both_sides_have_text() -> None:
    text = {"sw": ["text:a.sw.txt"], "en": ["text:a.en.txt"]}
    text_bytes = dict.fromkeys(text, text_steps.LEAST_TEXT_BYTES)
    holdings = Holdings(texts=text, text_bytes=text_bytes, pairs={"sw": {"own": 900}})  # type: ignore[dict-item]
    cfg = LanguageConfig(lang="sw", data=Path("data"))
    steps = make_plan(cfg, holdings, {}, 1e11).steps
    mined = steps["mined"]
    assert mined["config"]["src"] == f"{steps['text_sw']['config']['out']}/sw.{text_steps.EXPORT}"
    assert steps["text_en"]["config"]["export"] == text_steps.EXPORT and "mined" in steps["report"]["after"]
    made = pipeline.Pipeline({name: pipeline.Step(**each) for name, each in steps.items()})
    for name in made.steps:
        made.settings(name)
    del holdings.texts["en"]
    assert "mined" not in make_plan(cfg, holdings, {}, 1e11).steps


@pytest.mark.parametrize(
    ("model", "control", "said"),
    [
        ([range(36)], range(16), "the static encoder sorts 90.0 of 100 texts right (79.5 to 97.8). It can be used to"),
        ([range(16)], range(2), "It helps to sort texts by subject, but a person has to check each answer: +35.0"),
        ([range(18, 40)], range(20), "It is not shown that it helps to sort texts by subject: +5.0 points ("),
        ([range(5)], range(10, 40), "Do not use it to sort texts by subject yet: -62.5 points ("),
        # The mean of the seeds is far above the control, but they disagree.
        ([range(40), range(8), range(40)], range(14), "It is not shown that it helps"),
        # All rows differ alike: Wilson's interval of no row in 40 stands there.
        ([range(40)], [], "+100.0 points (+91.2 to +100.0) against character n-grams"),
        ([[]], [], "+0.0 points (-8.8 to +8.8) against"),
    ],
)  # fmt: skip
def test_words_follow_the_interval_of_the_difference(
    data: Path, tmp_path: Path, model: list[Iterable[int]], control: Iterable[int], said: str
) -> None:
    for seed, right in enumerate(model):
        answer(tmp_path / "scores" / "static", data, "static", right, seed)
    answer(tmp_path / "scores" / "static", data, "ngram", control, -1)
    answer(tmp_path / "scores" / "static", data, "random", [], -1)
    sentences, tables = closing_report.contents(tmp_path, facts_of(data, static="models/static"))
    assert said in sentences[0]
    assert [table.name for table in tables][:2] == ["scores", "differences"]


@pytest.mark.parametrize(
    ("transformer", "said"),
    [
        (range(38), "That is better than the static encoder, by +45.0 points ("),
        (range(21), "It is not shown which is better, the Transformer or the static encoder: +2.5 points ("),
        (range(2), "That is better than the Transformer, by +45.0 points ("),
    ],
)
def test_the_better_model_is_told(data: Path, tmp_path: Path, transformer: Iterable[int], said: str) -> None:
    answer(tmp_path / "scores" / "static", data, "static", range(20))
    answer(tmp_path / "scores" / "transformer", data, "transformer", transformer)
    sentences, _ = closing_report.contents(tmp_path, facts_of(data, static="S", transformer="T"))
    assert said in sentences[0] and "No control stands beside it" in sentences[0]


@pytest.mark.parametrize(
    ("text", "labels", "said"),
    [
        (range(2), range(20), "translated text +45.0 points ("),
        (range(2), range(20), "So more translated text would help most"),
        (range(10), range(9), "So more labels and translated text would help; whether"),
        (range(20), range(20), "Every interval holds 0"),
    ],
)
def test_what_would_help_most(
    data: Path, tmp_path: Path, text: Iterable[int], labels: Iterable[int], said: str
) -> None:
    answer(tmp_path / "scores" / "static", data, "static", range(20))
    answer(tmp_path / "scores" / "own_labels", data, "static", range(30))
    answer(tmp_path / "less" / "text", data, "static", text)
    answer(tmp_path / "less" / "labels", data, "static", labels)
    sentences, _ = closing_report.contents(tmp_path, facts_of(data, static="S"))
    assert said in sentences[1]
    assert "with labels of the language itself: 75.0" in sentences[2] and "so better: +25.0" in sentences[2]


@pytest.mark.browser
@pytest.mark.axe
def test_the_report_in_a_browser(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert cli.main(["language", "lang=German", f"data={data}", f"out={out}", "--dry-run"]) == 0
    assert cli.main(["language", "report", str(out)]) == 0
    with Browser(tmp_path / "profile") as window:
        assert window.flaws(out / "report" / "report.html") == []


@pytest.fixture
def body(tmp_path: Path) -> Path:
    """A tiny BERT with random weights that reads two words and letters, 2 x 32 in place of the recipe's 6 x 384."""
    from transformers import BertConfig, BertForMaskedLM, BertTokenizer

    letters = [*string.ascii_lowercase]
    names = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "the",
        "and",
        *letters,
        *("##" + each for each in letters),
    ]
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    BertForMaskedLM(BertConfig(vocab_size=len(names), **sizes)).save_pretrained(tmp_path / "bert")
    BertTokenizer(vocab={each: i for i, each in enumerate(names)}).save_pretrained(tmp_path / "bert")
    return tmp_path / "bert"


def test_the_whole_command_on_ciphers(
    data: Path,
    body: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "out"
    words = ["language", "lang=German", f"data={data}", f"out={out}", "updates=12", "seeds=1", "hours=1"]
    words += [*SMALL_FITS, *SMALL_MODELS, f"body=hf:{body}"]
    assert cli.main([*words, "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "aligned with the source" in shown and "nothing was run" in shown and not (out / "models").exists()
    assert cli.main(words) == 0
    report = (out / "report" / "report.md").read_text(encoding="utf-8")
    assert (
        re.search(r"sib200: the [\w ]+ sorts \d+\.\d of 100 texts right", report)
        and re.search(r"ntrex: the [\w ]+ finds the translation of", report)
        and "Differences on" in report
        and "held_out" in report
    )
    assert "transformer" in report and (out / "export" / "transformer" / "config.json").is_file()
    assert f"xling predict {out}/models/sib200 FILE lang=de" in report
    assert "lang='de', pooling='joined')" in report
    for suite, folder in (("ntrex", "joined"), ("sib200", "transformer"), ("panx", "transformer")):
        assert (out / f"scores/{folder}/{suite}/predictions/{suite}/joined").is_dir()
    assert "sentences in which words of both languages alternate" in report
    text = tmp_path / "texts.txt"
    text.write_text("kyvu bozo guzo\n", encoding="utf-8")
    capsys.readouterr()
    assert cli.main(["predict", str(out / "models" / "sib200"), str(text), "lang=de"]) == 0
    assert json.loads(capsys.readouterr().out)["label"] in suites()["sib200"].labels
    page = (out / "report" / "report.html").read_text(encoding="utf-8")
    assert re.search(r"<li><strong>ntrex: [^<]+\)\.</strong> ", page)
    assert "details/report.html" in page and "<h1>German: what was made</h1>" in page
    again = (out / "report" / "again.sh").read_text(encoding="utf-8")
    assert "lang=de" in again and "updates=12" in again and "seed/deu_Latn.txt" in again
    steps = yaml.safe_load((out / "survey" / "pipeline.yaml").read_text(encoding="utf-8"))["steps"]
    assert not any(step["stage"] == "corpus mono" for step in steps.values())
    before = {path: path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}
    assert cli.main(words) == 0
    assert {path: path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()} == before
    with monkeypatch.context() as other_code:
        other_code.setattr(source_version, "full_version", lambda: "9.9.9+abc")
        capsys.readouterr()
        assert cli.main(words) == 0
    assert f"{out}/survey is kept: made by xling" in (said := capsys.readouterr().err)
    assert "this is 9.9.9+abc" in said
    for code, line in (("deu_Latn", "Haus Baum"), ("eng_Latn", "house tree")):
        path = data / "seed" / f"{code}.txt"
        path.write_text(f"{path.read_text(encoding='utf-8')}{line}\n", encoding="utf-8")
    assert cli.main(words) == 2
    said = capsys.readouterr().err
    assert f"{out}/rows is finished and was made with other settings or inputs" in said
    assert "deu_Latn.txt has other content" in said and "add overwrite=true to replace it" in said


TIMED = ("details/*", "report/*", "survey/*", "export/*/README.md", "**/manifest.json")
"""Pages that say how long something took or will take, and the records of stages."""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_at_many_moments_it_ends_in_the_same_bytes(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ["language", "lang=German", f"data={data}", f"out={out}", "updates=8", "seeds=1", "hours=1"]
    words += SMALL_FITS
    for step in ("static", "static_less"):
        words += [f"{step}.model.dim=16", f"{step}.model.bits=10", f"{step}.save_minutes=1e-9"]

    def contents(made: Path) -> dict[str, bytes]:
        timed = {path for pattern in TIMED for path in made.glob(pattern)}
        return {
            str(path.relative_to(made)): path.read_bytes()
            for path in sorted(made.rglob("*"))
            if path.is_file() and path not in timed
        }

    code, deaths = attempts(words, MODULES, 20, 7, (out, tmp_path / "undisturbed"))
    assert code == 0 and deaths > 3
    killed, undisturbed = contents(out), contents(tmp_path / "undisturbed")
    # Names alone: pytest needs minutes to show how two long files differ.
    assert not [name for name in sorted({*killed, *undisturbed}) if killed.get(name) != undisturbed.get(name)]
    assert all(manifest.verify(path.parent) for path in out.rglob(manifest.FILE_NAME))

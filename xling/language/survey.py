"""Survey of the text and test sets of a language, and the plan that follows from it: ``xling language survey``.

The output holds ``survey.json``, ``survey.md`` and ``pipeline.yaml``, which ``xling language`` runs.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from xling.core import languages
from xling.core.errors import UserError
from xling.core.output import manifest, source_version
from xling.core.output.command_result import Answer
from xling.core.settings.config import to_dict
from xling.corpora.sources.source import SOURCES
from xling.eval.rows.suite import suites
from xling.language.elsewhere import add_downloads, look_elsewhere
from xling.language.holdings import LEAST_LETTERS, Holdings, languages_named, look, shared_words
from xling.language.known import NOT_STATED as TEXT_LICENCE
from xling.language.known import SCORES, licence_of, scores_near
from xling.language.plan import make_plan
from xling.language.settings import LanguageConfig
from xling.language.text_steps import Plan
from xling.language.times import minutes_of
from xling.pages.tabular import Table, to_markdown

STAGE = "language survey"
CODE = "code"
"""Key of the digest of xling's code beside the settings of a survey."""
MAX_NAMED = 10
RATE = "product_rate"
PIPELINE_FILE = "pipeline.yaml"
_ROUNDS, _SIZE = 5, 1024


def run(cfg: LanguageConfig) -> Answer:
    """Look what there is for a language, choose the steps and publish both; nothing is trained.

    Raises:
        UserError: no such folder, nothing in it for the language, wrong settings.
    """
    if not cfg.data.is_dir():
        raise UserError(f"data={cfg.data} is not a folder", "a folder of text, translations and test sets")
    out = folder_of(cfg)
    inputs = [path for path in sorted(cfg.data.rglob("*")) if _is_input(path, Path(cfg.out))]
    # Other code may survey otherwise. Steps whose settings stay the same are not made again.
    settings = to_dict(replace(cfg, out="")) | {CODE: source_version.digest()}
    if not manifest.up_to_date(out, STAGE, settings, inputs, replaceable=True):
        rate = _rate_of(out) or product_rate()
        holdings = look(cfg.data, cfg.lang, cfg.source)
        _check_is_enough(cfg, holdings)
        elsewhere = look_elsewhere(cfg) if cfg.size else []
        add_downloads(holdings, elsewhere)
        plan = make_plan(cfg, holdings, {name: suites()[name].kind for name in holdings.suites}, rate)
        with manifest.publish(out, STAGE, settings, inputs) as publication:
            facts = _facts(cfg, holdings, plan) | {RATE: rate}
            facts["elsewhere"] = elsewhere
            facts["minutes"] = minutes_of(plan.steps, holdings.text_bytes, rate)
            _write(publication.path, cfg, plan, facts)
            publication.counts |= {"steps": len(plan.steps), "suites": len(holdings.suites)}
    facts = json.loads((out / "survey.json").read_text(encoding="utf-8"))
    return Answer((out / "survey.md").read_text(encoding="utf-8").rstrip(), facts)


def folder_of(cfg: LanguageConfig) -> Path:
    """Return the folder of the survey."""
    return Path(cfg.out) / "survey"


def _rate_of(folder: Path) -> float:
    """Return the rate that an earlier survey measured, so that a new one plans the same trainings; 0 without one."""
    path = folder / "survey.json"
    if manifest.may_overwrite() or not path.is_file():
        return 0.0
    rate: float = json.loads(path.read_text(encoding="utf-8")).get(RATE, 0.0)
    return rate


def product_rate() -> float:
    """Return the operations a second of float32 matrix products on one core, the best of a few."""
    matrix = np.ones((_SIZE, _SIZE), np.float32)
    best = 0.0
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        matrix @ matrix
        best = max(best, 2 * _SIZE**3 / (time.perf_counter() - start))
    return best


def _is_input(path: Path, out: Path) -> bool:
    return (
        path.is_file() and not path.resolve().is_relative_to(out.resolve()) and not path.name.startswith(".")
    )


def _check_is_enough(cfg: LanguageConfig, holdings: Holdings) -> None:
    if cfg.lang in holdings.texts or cfg.lang in holdings.pairs or cfg.size:
        return
    name, others = languages.get(cfg.lang).name, languages_named(cfg.data)
    more = f" and {len(others) - MAX_NAMED} more" if len(others) > MAX_NAMED else ""
    held = f"it has {', '.join(others[:MAX_NAMED])}{more}" if others else "no file there names a language"
    raise UserError(
        f"{cfg.data} holds no text of {name} ({cfg.lang}): {held}",
        f"running text (news.{cfg.lang}.txt), or translations (a.{cfg.lang} beside a.{cfg.source})",
        f"bring {cfg.least} translated sentences or more, which train an encoder in minutes; the verses of a New "
        "Testament are 8,000. Or give size=20GB, which looks into Wikipedia and Common Crawl",
    )


def _facts(cfg: LanguageConfig, holdings: Holdings, plan: Plan) -> dict[str, Any]:
    langs = [cfg.lang, *plan.relatives, cfg.source]
    return {
        "lang": cfg.lang,
        "source": cfg.source,
        "data": str(cfg.data),
        "languages": [
            {
                "lang": code,
                "name": languages.get(code).name,
                "files": len(holdings.texts.get(code, ())),
                "megabytes": round(holdings.text_bytes.get(code, 0) / 1e6, 3),
                "pairs": dict(holdings.pairs.get(code, {})),
                "shared_words": round(shared_words(holdings, cfg.lang, code), 3),
            }
            for code in langs
        ],
        "sources": [
            [name, rows, licence_of(name)] for name, rows in holdings.pairs.get(cfg.lang, {}).items() if rows
        ],
        "hours": cfg.hours,
        "expected": _expected(holdings.num_pairs(cfg.lang) + holdings.downloads),
        "suites": {
            name: {
                "kind": suites()[name].kind,
                "licence": suites()[name].licence,
                "training_rows": holdings.num_labels.get(name, 0),
                "own_labels": name in holdings.own_labels,
            }
            for name in holdings.suites
        },
        "lacking": holdings.lacking,
        "choices": plan.choices,
        "models": plan.models,
        "labellers": plan.labellers,
    }


def _expected(num_rows: int) -> list[tuple[str, float, float, float, str]]:
    """Return for each suite the scores that such amounts gave, and of how many languages they are."""
    rows = []
    for suite in SCORES if num_rows else ():
        low, middle, high, number, is_far = scores_near(suite, num_rows)
        of = f"the {number} nearest languages, extrapolated" if is_far else f"{number} languages"
        rows.append((suite, low, middle, high, of))
    return rows


def _write(folder: Path, cfg: LanguageConfig, plan: Plan, facts: Mapping[str, Any]) -> None:
    (folder / "survey.json").write_text(
        json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    (folder / "survey.md").write_text(
        f"# {languages.get(cfg.lang).name}: what there is\n\n" + "\n".join(map(to_markdown, tables(facts))),
        encoding="utf-8",
    )
    head = f"# Made by `xling language lang={cfg.lang}`; the rule of each choice stands in survey.md.\n"
    text = yaml.safe_dump({"steps": plan.steps}, sort_keys=False, allow_unicode=True, width=120)
    (folder / PIPELINE_FILE).write_text(head + text, encoding="utf-8")


def tables(facts: Mapping[str, Any]) -> list[Table]:
    """Return the survey as tables: text, licences, suites, what is missing, choices, times, and what to expect."""
    all_tables = [
        _table_of_languages(facts["languages"]),
        Table(
            "sources",
            "Aligned text of the language",
            (("source", ""), ("rows", ",d"), ("licence", "")),
            tuple(tuple(each) for each in facts.get("sources", ())),
            (
                "Licences of the data sets that docs/hour.md names; that of one's own files is not stated.",
                f"Running text: {TEXT_LICENCE} for files, {SOURCES['wiki'].licence} for dumps of Wikipedia.",
            ),
        ),
        Table(
            "elsewhere",
            "Text elsewhere",
            (
                ("where", ""),
                ("amount", ""),
                ("clean text, MB", ",.1f"),
                ("licence", ""),
                ("how to get it", ""),
            ),
            tuple(
                tuple(each[key] for key in ("where", "amount", "clean_mb", "licence", "get"))
                for each in facts.get("elsewhere", ())
            ),
            (
                "Clean text: a guess from the bytes, not measured. Pages: an estimate from a sample of the index.",
            ),
        ),
        _table_of_suites(facts["suites"]),
        Table(
            "lacking",
            "Missing test sets of the language",
            (("suite", ""), ("what is missing", "")),
            tuple(facts["lacking"].items()),
            ("`xling eval fetch` gets those of the Hub; `xling eval list` names their files.",),
        ),
        Table(
            "choices",
            "Choices",
            (("what", ""), ("chosen", ""), ("rule", "")),
            tuple(tuple(choice) for choice in facts["choices"]),
        ),
        _table_of_minutes(facts.get("minutes", {}), facts.get("hours", 0.0)),
        Table(
            "expected",
            "What such amounts of aligned text gave so far",
            (("suite", ""), ("lowest", ".1f"), ("median", ".1f"), ("highest", ".1f"), ("of", "")),
            tuple(tuple(each) for each in facts.get("expected", ())),
            ("Languages with half to twice as many rows, with the encoder of docs/results.d/hour.md.",),
        ),
    ]
    return [table for table in all_tables if table.rows]


def _table_of_minutes(minutes: Mapping[str, float], hours: float) -> Table:
    total = sum(minutes.values())
    notes = [
        "An estimate for one core of this machine, without downloads, from rates measured on another one and the "
        "speed of matrix products here.",
    ]
    if total > 60 * hours:
        notes.append(
            f"That is more than hours={hours:g}: hours= is a plan, and the scores come on top of it."
        )
    rows = [*minutes.items(), ("all", round(total, 1))] if minutes else []
    return Table("times", "Time", (("part", ""), ("minutes", ",.1f")), tuple(rows), tuple(notes))


def _table_of_languages(langs: Sequence[Mapping[str, Any]]) -> Table:
    return Table(
        "languages",
        "Text",
        (
            ("language", ""),
            ("files", ",d"),
            ("MB", ",.2f"),
            ("aligned with the source", ",d"),
            ("words in common", ".0%"),
        ),
        tuple(
            (
                f"{each['name']} ({each['lang']})",
                each["files"],
                each["megabytes"],
                sum(each["pairs"].values()),
                each["shared_words"],
            )
            for each in langs
        ),
        (
            "MB: files of running text as stored. Words in common: share of the running words of the language, from "
            f"{LEAST_LETTERS} letters on.",
        ),
    )


def _table_of_suites(rows: Mapping[str, Mapping[str, Any]]) -> Table:
    return Table(
        "suites",
        "Test sets",
        (("suite", ""), ("kind", ""), ("training rows", ",d"), ("own labels", ""), ("licence", "")),
        tuple(
            (
                name,
                each["kind"],
                each["training_rows"],
                "yes" if each["own_labels"] else "no",
                each["licence"],
            )
            for name, each in rows.items()
        ),
    )

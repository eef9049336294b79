"""Audit of a corpus by people: ``xling corpus audit DIR`` makes a page, ``answers=FILE`` counts what they say."""

import html
import json
import re
from dataclasses import asdict, dataclass, fields
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from xling.core import languages
from xling.core.errors import UserError
from xling.core.output import manifest, sealed
from xling.core.output.amend import amend
from xling.core.output.command_result import Answer
from xling.core.output.parts import read_json
from xling.core.settings import values
from xling.core.settings.values import COUNT, LangList, Range, ranged
from xling.corpora.audit import labels, results
from xling.corpora.audit.sample import Draw, Sample, corpora_of, digest_of, draw, is_crawl
from xling.corpora.card import data_card
from xling.corpora.card.publication import STATS
from xling.pages import page, tabular

FOLDER, PAGE, SAMPLE, RESULT = "audit", "audit.html", "sample.json", "result.json"
"""The folder in that of the corpus, and its files."""
_WIDTH = Range(above=0, below=1, words="a share above 0, below 1")
_NOT_OF_THE_PAGE = ("corpus", "answers", "width")


@dataclass(frozen=True)
class AuditConfig:
    """Settings of ``xling corpus audit``.

    Attributes:
        corpus: directory of a corpus made by ``xling corpus mono`` or ``parallel``, or the one that holds the
            corpora of a crawl in several languages.
        answers: files that the page has saved, one a reader: counts them, and writes what they say into the card.
            Empty makes the page.
        labels: the questions: ``xling``; those of ``hplt`` or ``fineweb-c``; ``pairs`` for sentence pairs. ``auto``
            takes the first or the last by the corpus.
        num_texts: texts of each kind: kept ones by source, dropped ones by reason, languages of a crawl.
        langs: of a crawl, the languages whose kept and dropped texts are read; empty reads what was kept and routed
            of all.
        stages: only what these stages dropped; ``kept`` and ``routed`` for the others. Stages that compare texts,
            such as ``near_dedup``, are only read where they are named.
        max_chars: characters shown of a text; of a longer one start, middle and end.
        width: an interval is narrow enough where it is at most this wide.
        seed: of the choice of texts.
    """

    corpus: str
    answers: tuple[str, ...] = ()
    labels: Literal["auto", "xling", "hplt", "fineweb-c", "pairs"] = "auto"
    num_texts: int = ranged(30, COUNT)
    langs: LangList = ""
    stages: tuple[str, ...] = ()
    max_chars: int = ranged(1500, Range(least=30, words="a whole number from 30"))
    width: float = ranged(0.1, _WIDTH)
    seed: int = 1


def run(cfg: AuditConfig) -> Answer:
    """Write the page, or count the answers, write them into the cards and return a table of them.

    Raises:
        UserError: no corpus, a setting that changes nothing, or answers that do not belong to the corpus.
    """
    values.check(cfg)
    folder = Path(cfg.corpus)
    corpora = corpora_of(folder)
    if cfg.answers:
        return _count(cfg, folder, corpora)
    langs = tuple(filter(None, cfg.langs.split(",")))
    if langs and not is_crawl(folder):
        raise UserError(
            f"langs={cfg.langs}: {folder} is one corpus", "langs= for the folder of a crawl", "leave it out"
        )
    pairs = any("-" in code for code in corpora)
    preset = cfg.labels if cfg.labels != "auto" else "pairs" if pairs else "xling"
    if pairs != (preset == "pairs"):
        raise UserError(
            f"labels={preset} for {'pairs' if pairs else 'documents'}",
            "pairs" if pairs else "xling, hplt, fineweb-c",
        )
    sample = draw(folder, Draw(cfg.num_texts, cfg.max_chars, cfg.seed, cfg.stages), langs)
    if not sample.texts:
        raise UserError(f"nothing to read in {folder}{_not_read(sample)}", fix="see stages= and langs=")
    title = _title(folder, corpora)
    out = folder / FOLDER
    sealed.write_json(out / SAMPLE, sample.to_json())
    manifest.write_atomic(out / PAGE, write_page(sample, title, preset, cfg.width))
    text = f"{len(sample.texts):,} texts of {len(sample.strata):,} kinds: open {out / PAGE} in a browser"
    text += f"{_not_read(sample)}\n  then: xling corpus audit {folder} answers=FILE"
    data = {"page": str(out / PAGE), "texts": len(sample.texts), "strata": len(sample.strata)}
    return Answer(text, data | {"only_counted": sample.only_counted, "unjudged": sample.unjudged})


def _title(folder: Path, corpora: dict[str, Path]) -> str:
    if is_crawl(folder):
        return f"Crawl in {len(corpora):,} languages"
    return data_card.CardData(read_json(folder / STATS)).title


def _not_read(sample: Sample) -> str:
    """Return lines on dropped texts that are not in the sample."""
    lines = ""
    if sample.only_counted:
        num = sum(sample.only_counted.values())
        lines += f"\n  {num:,} losses are only counted, their texts are not here: {_few(sample.only_counted)}"
        lines += "; reject_chars= of the build keeps dropped texts, and unreadable bytes are in the source"
    if sample.unjudged:
        lines += (
            f"\n  not read, since one text alone does not show whether it was right: {_few(sample.unjudged)}"
        )
        lines += "; stages= reads them"
    return lines


def _few(counts: dict[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    more = f" and {len(ordered) - 5:,} more" if len(ordered) > 5 else ""
    return ", ".join(f"{name} {num:,}" for name, num in ordered[:5]) + more


def _count(cfg: AuditConfig, folder: Path, corpora: dict[str, Path]) -> Answer:
    for item in fields(cfg):
        if item.name not in _NOT_OF_THE_PAGE and getattr(cfg, item.name) != item.default:
            raise UserError(
                f"{item.name}= changes nothing with answers=",
                "width=, or the other settings where the page is made",
                f"leave {item.name}= out",
            )
    path = folder / FOLDER / SAMPLE
    if not path.is_file():
        raise UserError(
            f"no {path}", "the sample that was read", f"make the page: xling corpus audit {folder}"
        )
    sample = sealed.read_json(path, f"make the page again, and read it: xling corpus audit {folder}")
    if (digest := digest_of(folder)) != sample["corpus"]:
        raise UserError(
            f"{path} was drawn from corpus {sample['corpus']}, this is {digest}",
            "the corpus that was read",
            f"make its page: xling corpus audit {folder}",
        )
    outcome = results.results(sample, [results.read_answers(Path(name), sample) for name in cfg.answers])
    values = results.to_json(outcome, cfg.width)
    text = json.dumps(values, ensure_ascii=False, indent=1) + "\n"
    manifest.write_atomic(folder / FOLDER / RESULT, text)
    for lang, corpus in corpora.items():
        _write_card(corpus, results.rows(outcome, cfg.width, lang), results.agreement_rows(outcome))
    return Answer(_report(outcome, cfg.width, folder), values)


def _write_card(corpus: Path, rows: list[list[str]], agreement: list[list[str]]) -> None:
    """Write the card of a corpus again, with the results; the corpus stays the same one for what is made from it."""
    if rows:
        data_card.write(corpus, read_json(corpus / STATS) | {"read_by_people": rows, "agreement": agreement})
        amend(corpus, [data_card.HTML_FILE, data_card.MARKDOWN_FILE])


def _report(outcome: results.Results, width: float, folder: Path) -> str:
    lines = tabular.markdown_grid(
        [data_card.READ_HEAD, *results.rows(outcome, width)], [False, False, True, True, True, False]
    )
    if rows := results.agreement_rows(outcome):
        lines += ["", *tabular.markdown_grid([data_card.AGREEMENT_HEAD, *rows], [False, True, True, True])]
    for reader in outcome.readers:
        left_out = "".join(f"; left out: {n:,} {what}" for what, n in reader.counts.items())
        lines.append(f"{reader.name}: {len(reader.answers):,} texts{left_out}")
    return "\n".join([*lines, f"in {folder / FOLDER / RESULT}, and in the card"])


def write_page(sample: Sample, title: str, preset: str, width: float) -> str:
    """Return the page: one HTML file with the sample and the questions, which needs no server and no network.

    A key does nothing while Ctrl, Alt or Meta is held.

    Args:
        preset: name of the questions.
        width: width of an interval that is narrow enough, from 0 to 1.
    """
    strata = [asdict(stratum) for stratum in sample.strata]
    codes = sorted({stratum.lang for stratum in sample.strata} - {""})
    data = {
        "format": results.FORMAT,
        "corpus": sample.corpus,
        "labels": preset,
        "questions": labels.as_json(preset),
        "width": width,
        "strata": {stratum["name"]: stratum for stratum in strata},
        "texts": sample.texts,
        "goals": [asdict(goal) for goal in results.goals(strata)],
        "langs": {code: _language(code) for code in codes},
        "measures": {"right": results.RIGHT},
    }
    kinds = "one kind" if len(strata) == 1 else f"{len(strata):,} kinds"
    lead = (
        f"{len(sample.texts):,} texts, drawn at random from {kinds} of text. Judge each by itself. "
        "What you answer stays in this browser until you save it as a file."
    )
    values = {
        "title": html.escape(title),
        "lead": lead,
        "width": f"{100 * width:.0f}",
        "data": json.dumps(data, ensure_ascii=False).replace("<", "\\u003c"),
    }
    template = (files(__package__) / "page.html").read_text(encoding="utf-8")
    body = re.sub("@(title|lead|width|data)@", lambda match: values[match[1]], template)
    return page.html_document(f"Audit: {title}", body, narrow=True)


def _language(code: str) -> dict[str, Any]:
    """Return name, and for each side code of HTML and direction, of a language or a pair."""
    sides = [languages.get(side) for side in code.split("-")]
    return {
        "name": " and ".join(side.name for side in sides),
        "sides": [{"lang": side.code.replace("_", "-"), "dir": side.direction} for side in sides],
    }

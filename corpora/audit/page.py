"""The page of an audit: one HTML file with the sample and the questions, which needs no server and no network.

A key does nothing while Ctrl, Alt or Meta is held.
"""

from __future__ import annotations

import html
import json
import re
from dataclasses import asdict
from importlib.resources import files
from typing import Any

from xling.core import languages
from xling.corpora.audit import labels, results
from xling.corpora.audit.sample import Sample
from xling.pages import page


def write_page(sample: Sample, title: str, preset: str, width: float) -> str:
    """Return the page as HTML.

    Args:
        sample: the texts.
        title: name of the corpus.
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
    lead = (
        f"{len(sample.texts):,} texts, drawn at random from {len(strata):,} kinds of text. Judge each by itself. "
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

"""The page of an audit: one HTML file with the sample and the questions, which needs no server and no network."""

from __future__ import annotations

import html
import json
from dataclasses import asdict
from typing import Any

from xling.core import languages
from xling.corpora.audit import labels, results
from xling.corpora.audit.sample import Sample
from xling.corpora.audit.script import SCRIPT, STYLE
from xling.pages import page

_BODY = """{style}<h1>{title}</h1>
<p class="lead">{lead}</p>
<form id="filter"><label>Reader <input id="reader" size="12" autocomplete="off"></label>
<label>Language <select id="lang"></select></label>
<button type="button" id="save">Save answers (S)</button>
<label class="load">Load answers <input type="file" id="load" accept=".json,application/json"></label>
<p class="quiet" id="said" role="status"></p></form>
<main id="item" tabindex="-1" aria-label="text to be judged">
<p class="quiet" id="place"></p><p id="asked"></p><div id="texts"></div>
<div id="questions"></div>
<p id="moves"><button type="button" id="back">← back</button> <button type="button" id="next">next → (Enter)</button>
<button type="button" id="clear">clear (U)</button> <button type="button" id="origin">where from? (I)</button></p>
<p class="quiet" id="about" hidden></p></main>
<h2>What is known so far</h2>
<p class="quiet">A share of all such texts in the corpus, from those that were read, with its 95 % interval.
“Enough” means that the interval is at most {width:.0f} points wide.</p>
<div class="scroll" role="region" tabindex="0" aria-label="estimates"><table id="known" class="stack"><thead><tr><th
class="text">of</th><th class="text">share</th><th class="num">read</th><th class="num">estimate</th><th
class="num">95 %</th><th class="text">more?</th></tr></thead><tbody></tbody></table></div>
<details><summary>Keys</summary><dl><dt>digits and letters on the buttons</dt><dd>give and take back a label</dd>
<dt>Enter</dt><dd>the next text that is not answered</dd><dt>← →</dt><dd>the text before and after</dd>
<dt>U</dt><dd>clear the answers to this text</dd><dt>I</dt><dd>show where the text is from and what became of it; it
is hidden, so that it does not sway you</dd><dt>S</dt><dd>save the answers as a file</dd></dl></details>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>"""


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
    body = _BODY.format(
        style=STYLE,
        title=html.escape(title),
        lead=lead,
        width=100 * width,
        data=json.dumps(data, ensure_ascii=False).replace("<", "\\u003c"),
        script=SCRIPT,
    )
    return page.html_document(f"Audit: {title}", body, narrow=True)


def _language(code: str) -> dict[str, Any]:
    """Return name, and for each side code of HTML and direction, of a language or a pair."""
    sides = [languages.get(side) for side in code.split("-")]
    return {
        "name": " and ".join(side.name for side in sides),
        "sides": [{"lang": side.code.replace("_", "-"), "dir": side.direction} for side in sides],
    }

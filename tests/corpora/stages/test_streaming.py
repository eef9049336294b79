"""What every streaming stage promises: order, a balanced ledger, idempotence, documented named reasons."""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xling.corpora.stages import load_all
from xling.corpora.stages.blocklist import Blocklist
from xling.corpora.stages.contamination import Contamination
from xling.corpora.stages.filters import Filters, Limits
from xling.corpora.stages.langid import LangId
from xling.corpora.stages.length import Length
from xling.corpora.stages.pii import Pii
from xling.corpora.stages.repair import Repair
from xling.text.document import Document, Ledger

STAGES = load_all()
LISTS = Path(__file__).parent / "lists"
TESTED = {
    "repair": Repair(),
    "length": Length(min_chars=10),
    "blocklist": Blocklist(
        domains=(LISTS / "domains.txt",), url_words=(LISTS / "url_words.txt",), words=(LISTS / "words.txt",)
    ),
    "langid": LangId(threshold=0.3, paragraphs=True, paragraph_chars=10),
    "filters": Filters(Limits(min_words=2, min_ended_lines=0)),
    "pii": Pii(max_masked=2),
    "contamination": Contamination(files=(LISTS / "evaluation.tsv",), n=5, min_units=3),
}
LINE = st.sampled_from(
    [
        "The cat sat on the mat.",
        "le chat dort, la souris danse",
        "viagra casino poker",
        "write to a.b@example.org or call +254 712 345 678",
        "server 8.8.8.8 and 10.0.0.1",
        "委员会下周将再次开会。",
        "Ã©tÃ© â€œoui\u009d\x07",
        "e\u0301 \ufeff\u200b x",
        "\ufffd\ufffd",
        "",
        "  ",
        "12 34",
        "one two three four five six",
    ]
) | st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=30)
URL = st.sampled_from(["", "http://www.bad.example/x", "https://ok.example/poker-night", "http://[broken/x"])
DOCS = st.lists(st.tuples(st.lists(LINE, max_size=6).map("\n".join), URL), max_size=6)


def test_every_stage_is_covered_here() -> None:
    assert set(TESTED) | {"perplexity"} >= set(STAGES)


@pytest.mark.parametrize("name", sorted(STAGES))
def test_contract(name: str) -> None:
    stage = STAGES[name]
    assert stage.name == name
    assert dataclasses.is_dataclass(stage)
    assert stage.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert stage.reasons
    assert all(stage.reasons.values())
    assert stage.partial <= set(stage.reasons)
    stage()  # every setting has a default


@settings(max_examples=60, deadline=None)
@given(given_docs=DOCS, name=st.sampled_from(sorted(TESTED)))
def test_order_and_balance(given_docs: list[tuple[str, str]], name: str) -> None:
    stage = TESTED[name]
    docs = [Document(id=str(i), text=text, url=url) for i, (text, url) in enumerate(given_docs)]
    ledger = Ledger()
    kept = list(stage(iter(copy.deepcopy(docs)), ledger))
    ids = [int(doc.id) for doc in kept]
    assert ids == sorted(set(ids))
    assert {stage_name for stage_name, _ in ledger.dropped} <= {name}
    reasons = {reason: num for (_, reason), num in ledger.dropped.items()}
    assert set(reasons) <= set(stage.reasons)
    whole = sum(num for reason, num in reasons.items() if reason not in stage.partial)
    assert ledger.seen[name] == len(docs) == len(kept) + whole
    assert ledger.seen_chars[name] == sum(len(doc.text) for doc in docs)
    if name not in ("repair", "pii"):  # those two change what they keep
        assert ledger.seen_chars[name] == sum(len(d.text) for d in kept) + sum(ledger.dropped_chars.values())

    # What a stage kept, it keeps as it is.
    again = list(stage(iter(copy.deepcopy(kept)), Ledger()))
    if name != "langid":  # which paragraphs are left may change what a page is taken for
        assert [(doc.id, doc.text) for doc in again] == [(doc.id, doc.text) for doc in kept]


@settings(max_examples=40, deadline=None)
@given(given_docs=DOCS, name=st.sampled_from(sorted(TESTED)))
def test_one_document_at_a_time_is_the_same(given_docs: list[tuple[str, str]], name: str) -> None:
    """No state leaks between documents, so that shards may be cut anywhere."""
    stage = TESTED[name]
    docs = [Document(id=str(i), text=text, url=url) for i, (text, url) in enumerate(given_docs)]
    together = list(stage(iter(copy.deepcopy(docs)), Ledger()))
    apart = [kept for doc in copy.deepcopy(docs) for kept in stage([doc], Ledger())]
    assert together == apart

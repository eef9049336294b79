"""What every streaming stage promises, by examples of each: reasons, order, a balanced ledger, idempotence."""

from __future__ import annotations

import copy
import dataclasses
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.corpora.stages.stage_examples import examples_of
from xling.core.settings import config
from xling.corpora.stages import STREAMING, Example, Stage
from xling.corpora.stages.lines import Lines
from xling.text.document import TITLED, Document, Ledger

NAMES = sorted(STREAMING)
CASES = [(name, number) for name in NAMES for number in range(len(examples_of(name)))]
EXAMPLE_TEXTS = sorted({example.text for name in NAMES for example in examples_of(name)})
URLS = sorted({example.url for name in NAMES for example in examples_of(name)})
LINE = st.sampled_from(
    [
        "The cat sat on the mat.",
        "le chat dort, la souris danse",
        "Ã©tÃ© â€œoui\u009d\x07",
        "e\u0301 \ufeff\u200b x",
        "server 8.8.8.8 and 10.0.0.1",
        "\ufffd\ufffd",
        "",
        "  ",
        "12 34",
    ]
) | st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=30)
TEXT = st.sampled_from(EXAMPLE_TEXTS) | st.lists(LINE, max_size=6).map("\n".join)
DOCS = st.lists(st.tuples(TEXT, st.sampled_from([*URLS, "http://[broken/x"])), max_size=6)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("examples")


@cache
def stage_of(name: str, number: int, folder: Path) -> Stage:
    """The stage of an example with its settings; the example's files are written below ``folder``."""
    example = examples_of(name)[number]
    paths = {file: str(folder / f"{name}-{number}-{file}") for file in example.files}
    for file, text in example.files.items():
        Path(paths[file]).write_text(text, encoding="utf-8")

    def with_paths(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: with_paths(inner) for key, inner in value.items()}
        if isinstance(value, tuple):
            return tuple(map(with_paths, value))
        return paths.get(value, value) if isinstance(value, str) else value

    return config.from_dict(STREAMING[name], with_paths(dict(example.settings)), f"settings.{name}")


def document(example: Example) -> Document:
    return Document(
        "0", example.text, example.url, lang=example.lang, meta=dict(example.meta), form=example.form
    )


@pytest.mark.parametrize("name", NAMES)
def test_contract(name: str) -> None:
    stage = STREAMING[name]
    assert stage.name == name
    assert dataclasses.is_dataclass(stage)
    assert stage.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert stage.reasons
    assert all(stage.reasons.values())
    assert stage.partial <= set(stage.reasons)
    assert {example.reason for example in examples_of(name)} == {"", *stage.reasons}
    stage()  # every setting has a default


@pytest.mark.parametrize(("name", "number"), CASES)
def test_each_example_meets_its_reason_and_no_other(name: str, number: int, folder: Path) -> None:
    example, ledger = examples_of(name)[number], Ledger()
    kept = list(stage_of(name, number, folder)([document(example)], ledger))
    assert dict(ledger.dropped) == ({(name, example.reason): 1} if example.reason else {})
    assert len(kept) == (example.reason in {"", *STREAMING[name].partial})


@settings(max_examples=150, deadline=None)
@given(given_docs=DOCS, case=st.sampled_from(CASES))
def test_order_and_balance(given_docs: list[tuple[str, str]], case: tuple[str, int], folder: Path) -> None:
    stage, name = stage_of(*case, folder), case[0]
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
    if not stage.rewrites:
        assert ledger.seen_chars[name] == sum(len(d.text) for d in kept) + sum(ledger.dropped_chars.values())

    # What a stage kept, it keeps as it is.
    again = list(stage(iter(copy.deepcopy(kept)), Ledger()))
    if not stage.partial:  # what is left of a text may be judged differently from the whole
        assert [(doc.id, doc.text) for doc in again] == [(doc.id, doc.text) for doc in kept]


@settings(max_examples=100, deadline=None)
@given(given_docs=DOCS, case=st.sampled_from(CASES))
def test_one_document_at_a_time_is_the_same(
    given_docs: list[tuple[str, str]], case: tuple[str, int], folder: Path
) -> None:
    """No state leaks between documents, so that shards may be cut anywhere."""
    stage = stage_of(*case, folder)
    docs = [Document(id=str(i), text=text, url=url) for i, (text, url) in enumerate(given_docs)]
    together = list(stage(iter(copy.deepcopy(docs)), Ledger()))
    apart = [kept for doc in copy.deepcopy(docs) for kept in stage([doc], Ledger())]
    assert together == apart


def test_a_document_tells_how_much_was_cut_out_of_it() -> None:
    text = "Daraja la zamani litatengenezwa mwaka ujao, walisema wajumbe wa baraza la mji jana jioni.\n" * 4
    doc = Document(
        "0", f"Daraja\nNyumbani\nIngia\n{text}Faragha\n© 2024", source="wet:a", lang="sw", form=TITLED
    )
    (kept,) = Lines()([doc], Ledger())
    assert kept.meta["num_boilerplate"] == 4
    assert "Nyumbani" not in kept.text

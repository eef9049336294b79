"""Translation of documents: blocks of neighbouring sentences, trained and translated with ``join=true``."""

from __future__ import annotations

import io
import json
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from xling import cli
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.settings import config
from xling.corpora.binarize import BinarizeConfig
from xling.corpora.binarize import run as binarize
from xling.text.files import pair_documents, shards
from xling.text.files.shards import Shard
from xling.training import assemble
from xling.transfer import plans
from xling.transfer.settings import MtConfig
from xling.transfer.translation import documents, supervised

SHAPE = (
    "model.layers=1", "model.dim=48", "model.heads=2", "model.ffn_dim=96", "model.max_positions=64",
    "model.precision=fp32", "model.dropout=0", "tokens_per_sample=64", "directions=en-ar",
)  # fmt: skip
# Enough to learn 10 documents by heart.
SCHEDULE = (
    "train.updates=170", "train.batch_tokens=1500", "train.lr=6e-3", "train.warmup=20", "train.log_every=50",
    "train.valid_every=170", "train.save_every=170",
)  # fmt: skip


@pytest.fixture(scope="module")
def pairs(corpus: Path, vocab: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards of en-ar in documents of 4 pairs, and the two sides as files with blank lines between documents."""
    folder = tmp_path_factory.mktemp("documents")
    for lang in ("en", "ar"):
        lines = [line for line in (corpus / f"{lang}.txt").read_text("utf-8").splitlines() if line][:40]
        text = "".join(f"{line}\n" + "\n" * (n % 4 == 0) for n, line in enumerate(lines, 1))
        (folder / lang).write_text(text, "utf-8")
    files = {"en-ar": (f"{folder}/en", f"{folder}/ar")}
    cfg = BinarizeConfig(vocab=str(vocab), out=f"{folder}/shards", pairs=files, valid_docs=1, documents=True)
    binarize(cfg)
    return folder


@pytest.fixture(scope="module")
def trained(pairs: Path) -> Path:
    words = [f"data={pairs}/shards", f"out={pairs}/mt", *SHAPE, *SCHEDULE, "join=true", "search.beam=2"]
    supervised.run(config.load(MtConfig, overrides=[*words, f"test.en-ar={pairs}/en,{pairs}/ar"]))
    return pairs / "mt"


def side(data: Path, split: str, lang: str) -> Shard:
    return shards.open_shard(data / "en-ar" / f"{split}.en-ar.{lang}")


def test_documents_are_held_out_whole_and_counted(pairs: Path) -> None:
    counts = manifest.read(pairs / "shards").counts["en-ar"]
    assert counts["documents"] == {"train": 9, "valid": 1} and counts["dropped_empty"] == 0
    assert counts["train.en"]["items"] == 36 and counts["valid.ar"]["items"] == 4
    firsts = pair_documents.read(pairs / "shards", "en-ar", "train")
    assert firsts.tolist() == list(range(0, 36, 4))


def test_one_document_and_a_line_blank_on_one_side(vocab: Path, tmp_path: Path) -> None:
    (tmp_path / "en").write_text("a\nb\n\nc\n", "utf-8")
    (tmp_path / "ar").write_text("a\nb\nx\nc\n", "utf-8")
    files = {"en-ar": (f"{tmp_path}/en", f"{tmp_path}/ar")}
    cfg = BinarizeConfig(vocab=str(vocab), out=f"{tmp_path}/out", pairs=files, documents=True)
    with pytest.raises(UserError, match="which is one document; valid: documents with a line between them"):
        binarize(cfg)
    assert not (tmp_path / "out").exists()
    (tmp_path / "en").write_text("a\n\nb\n\n\nc\n", "utf-8")
    (tmp_path / "ar").write_text("a\nx\nb\n\n\nc\n", "utf-8")
    binarize(cfg)
    counts = manifest.read(tmp_path / "out").counts["en-ar"]
    assert counts["dropped_empty"] == 1 and sum(counts["documents"].values()) == 2


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9), st.booleans()), min_size=1, max_size=30),
    st.integers(4, 20),
)
def test_blocks_are_all_pairs_in_order_within_documents_and_room(
    rows: list[tuple[int, int, bool]], room: int
) -> None:
    firsts = np.array([n for n, row in enumerate(rows) if row[2] or n == 0], dtype=np.int64)
    sides = []
    for at in (0, 1):
        sizes = np.array([row[at] for row in rows], dtype=np.int32)
        starts = (np.cumsum(sizes) - sizes).astype(np.int64)
        sides.append(Shard(np.arange(sizes.sum(), dtype=np.int32), sizes, 4 * starts))
    blocks = pair_documents.joined(sides, firsts, room)
    numbers = [
        np.searchsorted(old.starts(), [new.start(i) for i in range(len(new.sizes))])
        for old, new in zip(sides, blocks, strict=True)
    ]
    assert numbers[0].tolist() == numbers[1].tolist()
    ends = [*numbers[0][1:].tolist(), len(rows)]
    for begin, end, *sizes in zip(numbers[0].tolist(), ends, blocks[0].sizes, blocks[1].sizes, strict=True):
        assert not any(begin < first < end for first in firsts)
        assert sizes == [sum(row[at] for row in rows[begin:end]) for at in (0, 1)]
        assert end - begin == 1 or max(sizes) <= room
        if end < len(rows) and end not in firsts:  # the next pair would not have fitted
            assert max(size + rows[end][at] for at, size in enumerate(sizes)) > room


def dataset_of(pairs: Path, out: Path, *words: str) -> tuple[Any, Any, Any]:
    cfg = config.load(MtConfig, overrides=[f"data={pairs}/shards", f"out={out}", *SHAPE, "join=true", *words])
    trainer, task = assemble.build_trainer(plans.plan_mt(cfg, out), out)
    task.load_dataset("train")
    return trainer.get_model(), task, task.dataset("train")


def test_an_example_is_a_block_and_its_end_is_the_language(pairs: Path, tmp_path: Path) -> None:
    _, task, dataset = dataset_of(pairs, tmp_path / "out")
    symbols = task.objectives["translation"].symbols
    data = pairs / "shards"
    texts = {}
    for lang in ("en", "ar"):
        shard = side(data, "train", lang)
        items = zip(shard.starts().tolist(), shard.sizes.tolist(), strict=True)
        texts[lang] = [shard.tokens[start : start + size].tolist() for start, size in items]
    blocks = 0
    for index in range(len(dataset)):
        each = dataset[index]
        source, target = each["tokens"].tolist(), each["target"].tolist()
        assert source[-1] == symbols.lang(1) and target[-1] == symbols.lang(0) and target[-2] == 2
        assert len(source) <= 64 and len(target) <= 64
        assert each["prev_tokens"].tolist() == [symbols.lang(0), *target[:-1]]
        num = source.count(2)
        blocks += num > 1
        begin = next(n for n in range(36) if [*chain(*texts["en"][n : n + num])] == source[:-1])
        assert begin // 4 == (begin + num - 1) // 4, "a block of two documents"
        assert [*chain(*texts["ar"][begin : begin + num])] == target[:-1]
        assert dataset.size(index) >= len(source) + len(target) - 1
    assert blocks > 3 and dataset.mixture()["ar-en" if "ar-en" in dataset.mixture() else "en-ar"][0] > 0


def test_a_prediction_knows_no_later_sentence_and_no_other_document(pairs: Path, tmp_path: Path) -> None:
    model, _, dataset = dataset_of(pairs, tmp_path / "out")
    model.eval()
    index = max(range(len(dataset)), key=lambda i: dataset[i]["target"].tolist().count(2))
    alone, other = dataset[index], dataset[(index + 1) % len(dataset)]
    first_end = alone["target"].tolist().index(2)

    def states(*examples: Any) -> torch.Tensor:
        sample = dataset.collater(list(examples))
        order = sorted(
            range(len(examples)), key=lambda i: (-len(examples[i]["tokens"]), -len(examples[i]["target"]))
        )
        begin = sum(len(examples[i]["target"]) for i in order[: order.index(0)])
        found: torch.Tensor = model(**sample["net_input"])[begin : begin + len(alone["target"])]
        return found.detach()

    plain = states(alone)
    torch.testing.assert_close(states(alone, other), plain, atol=1e-5, rtol=1e-4)
    later = {**alone, "prev_tokens": alone["prev_tokens"].copy()}
    later["prev_tokens"][first_end + 2 :] = 7
    changed = states(later)
    torch.testing.assert_close(changed[: first_end + 2], plain[: first_end + 2], atol=1e-5, rtol=1e-4)
    assert not torch.allclose(changed[first_end + 2 :], plain[first_end + 2 :], atol=1e-4)


def test_it_translates_documents_line_by_line_and_scores_both_ways(trained: Path, pairs: Path) -> None:
    found = json.loads((trained / "scores.json").read_text())["en-ar"]
    assert found["bleu"] > 60 and found["document_bleu"] > 60, found
    assert (found["lines"], found["documents"]) == (40, 10) and 0 <= found["uneven_blocks"] <= found["blocks"]
    lines = (trained / "test.en-ar.txt").read_text("utf-8").splitlines()
    wanted = (pairs / "ar").read_text("utf-8").splitlines()
    assert [not line for line in lines] == [not line for line in wanted]
    assert "d-BLEU" in supervised.format_scores({"en-ar": found})


def test_translate_joins_lines_and_keeps_their_number(
    trained: Path, pairs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (pairs / "en").read_text("utf-8").splitlines()[:12]
    long = " ".join([text[0]] * 30)
    given_lines = [*text, "", "", long, text[0]]

    class Out(io.StringIO):
        buffer = io.BytesIO()

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(given_lines).encode())))
    monkeypatch.setattr(sys, "stdout", out := Out())
    words = ["translate", str(trained), "src=en", "tgt=ar", "join=true", "block=64", "search.beam=1"]
    assert cli.main(words) == 0
    found = out.buffer.getvalue().decode().split("\n")[:-1]
    assert len(found) == len(given_lines)
    assert [n for n, line in enumerate(given_lines) if not line] == [4, 9, 12, 13]
    assert not any(found[n] for n in (4, 9, 12, 13)) and found[14]
    wanted = (pairs / "ar").read_text("utf-8").splitlines()[:12]
    assert sum(a == b for a, b in zip(found, wanted, strict=False)) > 6


def test_outputs_are_fitted_to_lines() -> None:
    assert documents.fitted([], 2) == ["", ""] and documents.fitted(["a", "b"], 1) == ["a b"]
    found = documents.sentences_of(np.array([5, 6, 2, 7, 2, 8]))
    assert [part.tolist() for part in found] == [[5, 6], [7], [8]]
    assert documents.sentences_of(np.array([2, 2])) == []


def test_bleu_of_documents_does_not_mind_where_a_sentence_ends() -> None:
    outputs, references = (
        ["the big cat sat", "on the red mat now", ""],
        ["the big cat", "sat on the red mat now", ""],
    )
    found = documents.documents_of("de-en", outputs, references)
    assert found == [[0, 1]]
    assert documents.document_bleu(outputs, references, found, "en") == pytest.approx(100)
    assert float(str(supervised.bleu_and_chrf(outputs[:2], references[:2], "en")["bleu"])) < 90
    with pytest.raises(UserError, match=r"test.de-en: line 2 is blank on one side only"):
        documents.documents_of("de-en", ["a", ""], ["a", "b"])


@pytest.mark.parametrize(
    ("words", "pattern"),
    [
        (["objectives.translation.pooling=max"], "join=true with pooling=max"),
        (["data={plain}"], "does not say which pairs of en-ar are one document.*documents=true"),
    ],
)
def test_mistakes_are_named(pairs: Path, vocab: Path, tmp_path: Path, words: list[str], pattern: str) -> None:
    from xling.training import checks
    from xling.training.settings import PretrainConfig

    files = {"en-ar": (f"{pairs}/en", f"{pairs}/ar")}
    binarize(BinarizeConfig(vocab=str(vocab), out=f"{tmp_path}/plain", pairs=files, valid_docs=1))
    given_words = [word.format(plain=tmp_path / "plain") for word in words]
    base = [
        f"data={pairs}/shards",
        f"out={tmp_path}/out",
        "objectives={translation: {join: true, tokens_per_sample: 64}}",
    ]
    with pytest.raises(UserError, match=pattern):
        checks.check(config.load(PretrainConfig, overrides=[*base, *given_words]))


def test_a_pivot_does_not_translate_documents(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["translate", str(trained), "src=en", "tgt=ar", "via=th", "join=true"]) == 2
    assert "join=true with via=th" in capsys.readouterr().err
    assert cli.main(["translate", str(trained), "src=en", "tgt=ar", "block=64"]) == 2
    assert "block=64 changes nothing here: it needs join=true" in capsys.readouterr().err

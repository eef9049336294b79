"""Objectives against numbers of the papers' own code, which `tests/parity/record.py` recorded.

Losses and layouts are equal; noise is equal in distribution: a two-sample chi-squared test on 20,000 draws
against the 100,000 recorded does not tell the two apart (p > .01).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from tests.parity import record
from tests.parity.record import BOS, EOS, FIRST, MASK, numbers
from xling.core.sampling import alpha_shares, rng
from xling.data import noise
from xling.data.masking import MaskRule
from xling.data.packing import pack_seq2seq
from xling.data.symbols import Symbols
from xling.models.network.loss import linear_cross_entropy
from xling.objectives import dae, mass, mbart, seq2seq, span_corruption, tlm, xlco
from xling.objectives.pairs import Pair

RECORDED = json.loads(record.OUT.read_text(encoding="utf-8"))
DRAWS = 20_000
SYMBOLS = Symbols(MASK, ("en",))
STARTS = np.array([i % 2 == 0 for i in range(SYMBOLS.size)])
ANY = np.ones(SYMBOLS.size, dtype=bool)
LEAVE_ALL = MaskRule(prob=0.15, leave=1.0, random=0.0, mask_id=MASK, first_piece=FIRST, end_piece=MASK)
BERT = MaskRule(prob=0.5, leave=0.1, random=0.1, mask_id=MASK, first_piece=FIRST, end_piece=MASK)
PAIR = Pair(np.array([10, 11, EOS]), np.array([20, 21, 22, EOS]), 0, 1)


def likeness(ours: Mapping[str, int], theirs: Mapping[str, int]) -> float:
    """The p of a two-sample chi-squared test; values with fewer than ten draws in both are counted as one."""
    keys = sorted({*ours, *theirs})
    counts = np.array([[side.get(key, 0) for key in keys] for side in (ours, theirs)])
    rare = counts.sum(0) < 10
    table = np.column_stack([counts[:, ~rare], counts[:, rare].sum(1)])
    table = table[:, table.sum(0) > 0]
    return 1.0 if table.shape[1] == 1 else float(stats.chi2_contingency(table).pvalue)


def drawn(draw: Callable[[int], Iterable[Any]], draws: int = DRAWS) -> Counter[str]:
    return Counter(str(value) for i in range(draws) for value in draw(i))


def test_the_comparison_tells_close_shares_apart() -> None:
    fair, tilted = Counter({"a": 10_000, "b": 10_000}), Counter({"a": 10_300, "b": 9_700})
    assert likeness(fair, tilted) < 0.01 < likeness(fair, Counter({"a": 10_050, "b": 9_950}))
    assert likeness({"a": 50}, {"b": 50}) < 0.01


def test_xlco_has_the_loss_and_gradient_of_infoxlm() -> None:
    recorded = RECORDED["infoxlm"]
    query, key, queue = (
        torch.from_numpy(numbers(seed, *shape)) for seed, shape in ((1, (6, 16)), (2, (6, 16)), (3, (32, 16)))
    )
    query.requires_grad_()
    rows = xlco.info_nce(query, key, queue, xlco.RAW)
    rows.sum().backward()
    assert float(rows.sum().detach()) == pytest.approx(recorded["loss"], rel=1e-5)
    torch.testing.assert_close(query.grad, torch.tensor(recorded["gradient"]), rtol=1e-5, atol=1e-5)


def test_the_queue_holds_the_keys_of_infoxlms(build: Any) -> None:
    trainer, _ = build("xlco", "objectives.xlco.queue_size=8")
    state = trainer.get_model().extras["xlco"]
    for (first, count), wanted in zip(
        ((0, 3), (3, 4), (7, 5), (12, 8)), RECORDED["infoxlm"]["queue"], strict=True
    ):
        state.push((torch.arange(first, first + count).float() + 1)[:, None].expand(count, 32))
        assert state.queue[:, 0].tolist() == wanted


def test_the_momentum_encoder_moves_as_infoxlms(build: Any) -> None:
    trainer, _ = build("xlco", "model.precision=fp32")
    model = trainer.get_model()
    state = model.extras["xlco"]
    fast, slow = model.encoder.layers[0].up.weight, state.slow[0].layers[0].up.weight
    with torch.no_grad():
        fast[:2, :3] = torch.from_numpy(numbers(4, 2, 3))
        slow[:2, :3] = torch.from_numpy(numbers(5, 2, 3))
    state.follow(model.encoder, 0.9)
    torch.testing.assert_close(slow[:2, :3], torch.tensor(RECORDED["infoxlm"]["slow"]), rtol=1e-6, atol=1e-6)


def test_xlco_mixes_as_infoxlm() -> None:
    def pair(src: int, tgt: int, langs: tuple[int, int]) -> dict[str, np.ndarray]:
        sides = {"src": np.array([src, EOS]), "tgt": np.array([tgt, EOS])}
        return sides | {"pair_langs": np.array(langs), "texts": np.array([src, tgt])}

    generator = rng("mixed")

    def mixed(_: int) -> Iterable[str]:
        # Which side comes first is drawn where a pair is read.
        turned = [generator.random() < 0.5 for _ in range(2)]
        samples = [
            pair(*(tokens[::-1] if swap else tokens), (1, 0) if swap else (0, 1))
            for tokens, swap in zip(((10, 20), (11, 21)), turned, strict=True)
        ]
        (made,) = xlco.mix_pairs(samples, 1.0, generator)
        yield f"{[BOS, *made['src'].tolist()]} {[BOS, *made['tgt'].tolist()]}"

    assert likeness(drawn(mixed), RECORDED["infoxlm"]["mixed"]) > 0.01


def test_tlm_is_laid_out_as_infoxlms_and_xlms() -> None:
    made = tlm.example(PAIR, LEAVE_ALL, False, rng(1), between=0)
    assert made["tokens"].tolist() == RECORDED["infoxlm"]["tlm"]
    assert made["positions"].tolist() == list(range(len(made["tokens"])))
    made, wanted = tlm.example(PAIR, LEAVE_ALL, True, rng(1)), RECORDED["xlm"]["tlm"]
    assert [EOS, *made["tokens"][1:].tolist()] == wanted["tokens"]  # XLM has </s> where ours has <s>
    assert (made["positions"].tolist(), made["langs"].tolist()) == (wanted["positions"], wanted["langs"])


def test_mbart_has_the_noise_of_fairseq() -> None:
    text, cfg = np.array(record.text()), mbart.MbartConfig(style="fairseq")
    stream = rng("mbart")
    sources = [
        [*mbart.fairseq_noisy(text, STARTS, cfg, MASK, stream).tolist(), record.LANG] for _ in range(DRAWS)
    ]
    found = {
        "masks": drawn(lambda i: [sources[i].count(MASK)]),
        "ends": drawn(lambda i: [sources[i].count(EOS)]),
        "length": drawn(lambda i: [len(sources[i])]),
        "first mask": drawn(lambda i: [sources[i].index(MASK)]),
        "first": drawn(lambda i: [next(t for t in sources[i][1:] if t != MASK)]),
    }
    assert {
        name: likeness(ours, RECORDED["mbart"][name]) > 0.01 for name, ours in found.items()
    } == dict.fromkeys(found, True)


def test_mbart_has_the_sequences_of_fairseq(build: Any) -> None:
    _, task = build("mbart", "objectives.mbart.style=fairseq", "objectives.mbart.infill=0")
    task.load_dataset("train")
    dataset, mask = task.dataset("train"), task.dictionary.index("<mask>")
    for index in range(10):
        made = dataset[index]
        lang = int(made["prev_tokens"][0])
        assert lang == mask + 1 + int(made["langs"][0])
        text = made["target"][1:-2].tolist()
        stands_for = dict(zip((record.LANG, BOS, EOS), (lang, BOS, EOS), strict=True))
        for ours, theirs in ((made["prev_tokens"], "previous"), (made["target"], "target")):
            wanted = [stands_for.get(t, t) for t in RECORDED["mbart"][theirs]]
            place = wanted.index(10)
            assert ours.tolist() == [*wanted[:place], *text, *wanted[place + 2 :]]
        assert (made["tokens"][0], made["tokens"][-1]) == (BOS, lang)
        assert sorted(made["tokens"]) == sorted(made["target"])


@pytest.mark.parametrize("size", ["9", "10"])
def test_mass_has_the_spans_of_its_code(size: str) -> None:
    num_tokens = int(size) + 1

    stream = rng("mass")

    def draw(_: int) -> Iterable[str]:
        begin, end = mass.paper_span(num_tokens, 0.5, stream)
        yield f"{begin}+{end - begin}"

    assert likeness(drawn(draw), RECORDED["mass"]["spans"][size]) > 0.01


def test_mass_reads_the_token_before_the_span_and_hides_what_is_masked() -> None:
    tokens = np.array([*range(10, 20), EOS])
    masked = 0
    for index in range(4000):
        made = mass.example(tokens, 0, 0.5, BERT, SYMBOLS, rng("fates", index), "mass")
        begin = int(made["prev_positions"][0])
        before = tokens[begin - 1] if begin else SYMBOLS.lang(0)
        assert made["prev_tokens"].tolist() == [before, *tokens[begin : begin + 5]]
        assert made["hidden"].tolist() == (made["tokens"] == MASK).tolist()
        masked += int(made["hidden"].sum())
    theirs = RECORDED["mass"]["masked of 4000"]
    # Both draw each of 6 tokens of 4,000 spans with .8: the standard deviation of the difference is 88.
    assert abs(masked - theirs) < 3 * np.sqrt(2 * 24_000 * 0.8 * 0.2)


def test_the_decoder_of_mass_does_not_see_what_is_masked(build: Any) -> None:
    trainer, task = build("mass", "objectives.mass.style=mass", "model.dropout=0")
    task.load_dataset("train")
    dataset, model = task.dataset("train"), trainer.get_model().eval()
    sample = pack_seq2seq([dataset[i] for i in range(6)])
    inputs = sample["net_input"]
    encoder = model.encoder

    def decoded(change: torch.Tensor) -> torch.Tensor:
        handle = encoder.register_forward_hook(lambda module, given, states: states + change)
        states = model(**inputs)
        handle.remove()
        return states

    seen = torch.zeros(len(inputs["src_tokens"]), dtype=torch.bool)
    seen[inputs["decoder"]["seen"]] = True
    assert (seen == (inputs["src_tokens"] != task.dictionary.index("<mask>"))).all() and not seen.all()
    plain = decoded(torch.zeros(1))
    torch.testing.assert_close(decoded((~seen).float()[:, None] * 3), plain)
    assert not torch.allclose(decoded(seen.float()[:, None] * torch.randn(32)), plain)


def test_dae_has_the_noise_of_xlm_and_xnlg() -> None:
    assert RECORDED["xlm"]["dae"] == RECORDED["xnlg"]["dae"]  # with one seed: the code is the same
    cfg, tokens = dae.DaeConfig(style="xlm"), np.array([*range(10, 22), EOS])
    stream = rng("dae")
    rows = [dae.noisy(tokens, STARTS, cfg, MASK, stream)[:-1].tolist() for _ in range(DRAWS)]
    lone = dae.DaeConfig(style="xlm", drop=0.9, shuffle=0, blank=0)
    short = np.array([10, 11, 12, EOS])
    found = {
        "length": drawn(lambda i: [len(rows[i])]),
        "masks": drawn(lambda i: [rows[i].count(MASK)]),
        "moved": drawn(lambda i: [rows[i].index(15) if 15 in rows[i] else -1]),
        "alone": drawn(lambda _: [str(dae.noisy(short, STARTS, lone, MASK, stream)[:-1].tolist())], 4000),
    }
    wanted = RECORDED["xlm"]["dae"]
    assert {name: likeness(ours, wanted[name]) > 0.01 for name, ours in found.items()} == dict.fromkeys(
        found, True
    )


def test_span_corruption_reads_texts_as_long_as_t5s() -> None:
    for room, share, mean, num_tokens, target in RECORDED["t5"]["sizes"]:
        assert span_corruption.longest_text(room, share, mean) == num_tokens + 1
        made = span_corruption.split_spans(
            np.array([*np.full(num_tokens, 10), EOS]), share, mean, SYMBOLS, rng(1)
        )
        assert [len(side) for side in made][1] == target and len(made[0]) <= room


def test_span_corruption_has_the_spans_of_t5() -> None:
    for size, (gone, spans) in RECORDED["t5"]["counts"].items():
        assert noise.span_counts(int(size), 0.15, 3.0) == (gone, spans)
    stream = rng("t5")
    masks = [noise.corrupted_spans(40, 0.15, 3.0, stream) >= 0 for _ in range(DRAWS)]
    found = {
        "first": drawn(lambda i: [int(np.argmax(masks[i]))]),
        "longest": drawn(lambda i: [record._longest(masks[i])]),
    }
    for name, ours in found.items():
        assert likeness(ours, RECORDED["t5"][name]) > 0.01


def test_losses_and_shares_are_fairseqs() -> None:
    logits, target = torch.from_numpy(numbers(6, 5, 12)), torch.tensor([0, 11, 4, 4, 7])
    for epsilon, (loss, nll) in RECORDED["losses"]["smoothed"].items():
        total, rows = linear_cross_entropy(logits, torch.eye(12), torch.zeros(12), target, float(epsilon))
        assert float(total) == pytest.approx(loss, rel=1e-5)
        assert float(rows.sum()) == pytest.approx(nll, rel=1e-5)
    sizes = {str(i): int(size) for i, size in enumerate(RECORDED["losses"]["sizes"])}
    for alpha, shares in RECORDED["losses"]["alpha"].items():
        assert list(alpha_shares(sizes, float(alpha)).values()) == pytest.approx(shares, rel=1e-9)


def test_xae_reads_and_predicts_what_xnlg_does() -> None:
    made, wanted = seq2seq.both_sides(PAIR, Symbols(MASK, ("a", "b"))), RECORDED["xnlg"]["xae"]
    assert made["target"].tolist() == wanted["target"]
    assert made["prev_langs"].tolist() == wanted["target langs"]
    # XNLG has </s> where a sequence begins and a vector of the language beside each piece; ours has a token of it.
    assert made["prev_tokens"][1:].tolist() == wanted["read"][1:]
    assert made["tokens"][:-1].tolist() == wanted["source"][1:]
    assert {*made["langs"].tolist()} == {*wanted["source langs"]}

"""Batches worked out by hand, compared whole, and the losses that are our own against plain formulas."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests import forked
from xling.data.masking import MaskRule
from xling.data.packing import pack
from xling.models.network.loss import linear_cross_entropy
from xling.objectives import alm, btmlm, camlm, clm, clpc, clwr, hictl, mmlm, tlm, xlco, xmlm
from xling.objectives.pairs import Pair
from xling.training.assemble import build_trainer

MASK = 50
ALL_MASKED = MaskRule(prob=0.5, leave=0.0, random=0.0, mask_id=MASK, first_piece=4, end_piece=MASK)
PAIR = Pair(np.array([10, 11, 2]), np.array([20, 21, 22, 2]), src_lang=0, tgt_lang=1)


class Chooser:
    """Stands for a generator: the order of a permutation is the given one, coins fall on 0."""

    def __init__(self, *order: int) -> None:
        self.order = order

    def permutation(self, items: Any) -> np.ndarray:
        return np.array([i for i in self.order if i in items])

    def random(self, size: int | None = None) -> Any:
        return 0.0 if size is None else np.zeros(size)

    def integers(self, low: int, high: int, size: int) -> np.ndarray:
        return np.full(size, low)


def plain(example: dict[str, np.ndarray]) -> dict[str, list[int]]:
    return {key: value.tolist() for key, value in example.items()}


def test_mmlm() -> None:
    tokens = np.array([0, 10, 11, 2, 12, 13])
    assert plain(mmlm.example(tokens, ALL_MASKED, Chooser(4, 1))) == {  # type: ignore[arg-type]
        "tokens": [0, MASK, 11, 2, MASK, 13],
        "positions": [0, 1, 2, 3, 4, 5],
        "chosen": [1, 4],
        "target": [10, 12],
    }


def test_clm() -> None:
    assert plain(clm.example(np.array([0, 10, 11, 2]))) == {
        "tokens": [0, 10, 11, 2],
        "positions": [0, 1, 2, 3],
        "chosen": [0, 1, 2],
        "target": [10, 11, 2],
    }


@pytest.mark.parametrize(("restart", "second"), [(True, [0, 1, 2, 3, 4]), (False, [4, 5, 6, 7, 8])])
def test_tlm(restart: bool, second: list[int]) -> None:
    # <s> 10 11 </s> </s> 20 21 22 </s>
    assert plain(tlm.example(PAIR, ALL_MASKED, restart, Chooser(6, 1))) == {  # type: ignore[arg-type]
        "tokens": [0, MASK, 11, 2, 2, 20, MASK, 22, 2],
        "positions": [0, 1, 2, 3, *second],
        "langs": [0, 0, 0, 0, 1, 1, 1, 1, 1],
        "segments": [0, 0, 0, 0, 1, 1, 1, 1, 1],
        "chosen": [1, 6],
        "target": [10, 21],
        "target_langs": [0, 1],
    }


def test_camlm() -> None:
    made = camlm.example(PAIR, ALL_MASKED, True, Chooser(6, 1))  # type: ignore[arg-type]
    assert made["sees"].tolist() == [0, 1, 0, 0, 1, 1, 0, 1, 1]
    assert made["shows"].tolist() == [0, -1, 0, 0, 1, 1, -1, 1, 1]


def test_btmlm() -> None:
    tokens, langs = np.array([0, 10, 11]), np.array([0, 0, 0])
    made = btmlm.example(tokens, langs, 2, ALL_MASKED, True, Chooser(2))  # type: ignore[arg-type]
    assert plain(made) == {
        "tokens": [0, 10, MASK, 2, 2, MASK, MASK, 2],
        "positions": [0, 1, 2, 3, 0, 1, 2, 3],
        "langs": [0, 0, 0, 0, 2, 2, 2, 2],
        "segments": [0, 0, 0, 0, 1, 1, 1, 1],
        "chosen": [2],
        "target": [11],
        "clean": [0, 10, 11, 2, 2, MASK, MASK, 2],
        "blanks": [5, 6],
    }
    filling = btmlm._to_fill(made | {"id": np.array([0])})
    assert filling["segments"].tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert filling["sees"].tolist() == [0, 0, 0, 0, 1, 0, 0, 1]
    assert filling["shows"].tolist() == [0, 0, 0, 0, 1, -1, -1, 1]


def test_xmlm_alternates() -> None:
    sides = [[np.array([10, 2]), np.array([11, 2])], [np.array([20, 2]), np.array([21, 22, 2])]]
    for first, tokens, langs in (
        (0, [0, 10, 2, 21, 22, 2], [0, 0, 0, 1, 1, 1]),
        (1, [0, 20, 2, 11, 2], [1, 1, 1, 0, 0]),
    ):
        made = xmlm.alternate(sides, (0, 1), first)
        assert [part.tolist() for part in made] == [tokens, langs]


def test_xmlm_cuts_documents_and_knows_their_length() -> None:
    sizes = np.array([[4, 3], [5, 2], [3, 3], [9, 20]])
    starts = xmlm.document_starts(sizes, 10)
    assert starts.tolist() == [0, 2, 3, 4]
    lengths = xmlm.alternating_lengths(np.minimum(sizes, 10).T, starts)
    assert lengths.tolist() == [[4 + 2, 3, 9], [3 + 5, 3, 10]]


def test_clwr() -> None:
    assert plain(clwr.example(PAIR, Chooser())) == {  # type: ignore[arg-type]
        "tokens": [10, 11, 2],
        "positions": [0, 1, 2],
        "langs": [0, 0, 0],
        "chosen": [0, 1],
        "target": [10, 11],
        "target_langs": [0, 0],
        "other": [20, 21, 22, 2],
    }


def test_clpc_passes_second_sides_on_in_a_circle_within_a_language_pair() -> None:
    class Coins:
        def random(self, size: int) -> np.ndarray:
            return np.array([0.1, 0.9, 0.1, 0.2][:size])

    langs = [(0, 1), (0, 1), (0, 1), (0, 1), (1, 0)]
    samples = [{"pair_langs": np.array(pair)} for pair in langs]
    partners, right = clpc.exchange(samples, Coins())  # type: ignore[arg-type]
    assert partners == [3, 1, 0, 2, 4]
    assert right.tolist() == [0, 1, 0, 0, 1]


def test_alm_reads_switched_text_with_the_language_of_each_token(bitext: Path, build: Any) -> None:
    _, task = build("alm")
    task.load_dataset("train")
    dataset = task.dataset("train")
    assert list(dataset._streams) == ["en-ar.switched", "en-ar.en", "en-ar.ar"]
    en, ar = task.langs.index("en"), task.langs.index("ar")
    kinds: dict[str, set[int]] = {}
    for index in range(len(dataset)):
        example = dataset[index]
        name = list(dataset._streams)[dataset.drawn(index)[0]]
        kinds.setdefault(name, set()).update(example["langs"].tolist())
        assert example["target_langs"].tolist() == example["langs"][example["chosen"]].tolist()
    assert kinds == {"en-ar.switched": {en, ar}, "en-ar.en": {en}, "en-ar.ar": {ar}}
    assert issubclass(type(dataset), alm.SwitchedDataset)
    _, task = build("alm", "objectives.alm.switched=1")
    task.load_dataset("train")
    assert set(task.dataset("train").window(0).draw.langs.tolist()) == {0}


def test_alm_gives_each_of_two_pairs_four_fifths_of_switched_text(
    bitext: Path, recipe: Any, tmp_path: Path
) -> None:
    shutil.copytree(bitext, tmp_path / "two")
    for path in (bitext / "en-ar").glob("*.switched*"):
        shutil.copy(path, tmp_path / "two" / "en-th" / path.name.replace("en-ar", "en-th"))
    _, task = build_trainer(recipe(tmp_path / "two", "alm", tmp_path / "out"), tmp_path / "out")
    task.load_dataset("train")
    dataset = task.dataset("train")
    counts = dataset.epoch_counts()
    seen: dict[str, set[str]] = {}
    for index in range(len(dataset)):
        name = list(counts)[dataset.drawn(index)[0]]
        seen.setdefault(name, set()).update(task.langs[lang] for lang in dataset[index]["langs"])
    for pair in ("en-ar", "en-th"):
        assert seen[f"{pair}.switched"] == {*pair.split("-")}
        assert all(seen[f"{pair}.{lang}"] == {lang} for lang in pair.split("-"))
        switched, *plain = (counts[f"{pair}.{kind}"] for kind in ("switched", *pair.split("-")))
        assert switched / (switched + sum(plain)) == pytest.approx(0.8, abs=0.1) and all(plain)


def test_pack_lays_examples_end_to_end() -> None:
    examples = [
        mmlm.example(np.array(t), ALL_MASKED, Chooser(1, 2)) for t in ([0, 10, 2], [0, 11, 12, 2], [0, 13, 2])
    ]  # type: ignore[arg-type]
    sample = pack([e | {"id": np.array([i])} for i, e in enumerate(examples)])
    assert sample["id"].tolist() == [1, 0, 2]
    assert sample["net_input"]["src_tokens"].tolist() == [0, MASK, 12, 2, 0, MASK, 2, 0, MASK, 2]
    assert sample["net_input"]["positions"].tolist() == [0, 1, 2, 3, 0, 1, 2, 0, 1, 2]
    assert sample["net_input"]["runs"] == [(1, 4), (2, 3)]
    assert (sample["chosen"].tolist(), sample["target"].tolist()) == ([1, 5, 8], [11, 10, 13])


def doubles(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(
        *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
    ).requires_grad_()


def test_linear_cross_entropy_equals_torch_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xling.models.network.loss.CHUNK_BYTES", {"cpu": 4 * 9 * 2})  # two rows a chunk
    hidden, weight, bias = doubles(5, 3), doubles(9, 3, seed=1), doubles(9, seed=2)
    target = torch.tensor([0, 8, 3, 3, 1])
    total, rows = linear_cross_entropy(hidden, weight, bias, target)
    grads = torch.autograd.grad(total * 0.7, (hidden, weight, bias))
    wanted = F.cross_entropy(F.linear(hidden, weight, bias), target, reduction="none")
    torch.testing.assert_close(rows, wanted.detach().float())
    for ours, theirs in zip(
        grads, torch.autograd.grad(wanted.sum() * 0.7, (hidden, weight, bias)), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_info_nce_by_hand_and_by_gradcheck() -> None:
    query = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    negatives = torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)
    (loss,) = xlco.info_nce(query, query, negatives, 0.5)
    assert float(loss) == pytest.approx(np.log(np.exp(2) + 1 + np.exp(-2)) - 2)
    for others in (doubles(4, 3, seed=2), torch.zeros(0, 3, dtype=torch.float64)):
        assert torch.autograd.gradcheck(
            lambda q, k, o=others: xlco.info_nce(q, k, o, 0.25), (doubles(3, 3), doubles(3, 3, seed=1))
        )


def test_hictl_sentence_rows_by_gradcheck_of_what_is_differentiated() -> None:
    # Hard negatives are constants, so numerical gradients hold only with them fixed.
    query, key = (F.normalize(doubles(3, 4, seed=s).detach(), dim=-1).requires_grad_() for s in (0, 1))
    with torch.no_grad():
        zeta = 0.6
        hard = F.normalize(hictl.harden(query, key, key, zeta), dim=-1)
    itself = torch.eye(3, dtype=torch.bool)

    def fixed(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        near, far = q @ k.t() / 0.1, torch.einsum("bd,bnd->bn", q, hard) / 0.1
        logits = torch.cat([near, far.masked_fill(itself, -torch.inf)], 1)
        return torch.logsumexp(logits, 1) - near.diagonal()

    assert torch.autograd.gradcheck(fixed, (query, key))
    torch.testing.assert_close(hictl.sentence_rows(query, key, 0.1, zeta), fixed(query, key))
    ours = torch.autograd.grad(hictl.sentence_rows(query, key, 0.1, zeta).sum(), (query, key))
    for got, wanted in zip(ours, torch.autograd.grad(fixed(query, key).sum(), (query, key)), strict=True):
        torch.testing.assert_close(got, wanted)


def test_hictl_draws_only_farther_negatives_closer_never_past_the_positive() -> None:
    query, positive = torch.zeros(1, 2), torch.tensor([[1.0, 0.0]])
    negatives = torch.tensor([[4.0, 0.0], [0.5, 0.0]])
    assert hictl.harden(query, positive, negatives, 0.0).tolist() == [[[4.0, 0.0], [0.5, 0.0]]]
    assert hictl.harden(query, positive, negatives, 1.0).tolist() == [[[1.0, 0.0], [0.5, 0.0]]]
    assert hictl.harden(query, positive, negatives, 0.5).tolist() == [[[2.0, 0.0], [0.5, 0.0]]]


def test_hictl_hardens_by_the_probabilities_of_the_last_hundred_batches(build: Any) -> None:
    trainer, task = build("hictl")
    only, model = task.objectives["hictl"], trainer.get_model()
    heads = model.extras["hictl"]
    task.load_dataset("train")
    dataset = task.dataset("train")
    sample = dataset.collater([dataset[i] for i in range(4)])
    only.batch_index = 1
    only.loss(model.eval(), sample)
    assert not heads.pending, "validation leaves no trace"
    only.loss(model.train(), sample)
    only.forget_update(model)
    only.after_update(model)
    assert not heads.recent.any(), "a skipped batch leaves none"
    heads.pending = [(1, torch.tensor(0.5)), (0, torch.tensor(0.25))]
    only.after_update(model)
    assert heads.recent[-3:].tolist() == [0, 0.25, 0.5] and heads.recent.shape == (100,), "in order"
    heads.pending = [(i, torch.tensor(1.0)) for i in range(100)]
    only.after_update(model)
    assert heads.recent.tolist() == [1.0] * 100
    model.eval()
    with torch.no_grad():
        hard = [only.loss(model, sample).rows]
        heads.recent.zero_()
        hard.append(only.loss(model, sample).rows)
    assert (hard[0] - hard[1]).mean() > 0, "harder negatives cost more"


def test_hictl_with_one_pair_has_no_negatives_and_finite_gradients(build: Any) -> None:
    trainer, task = build("hictl")
    task.load_dataset("train")
    dataset, model = task.dataset("train"), trainer.get_model()
    loss = task.objectives["hictl"].loss(model, dataset.collater([dataset[0]]))
    loss.total.backward()
    assert float(loss.total.detach()) == pytest.approx(0, abs=1e-5)
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_soft_alignment_is_the_formula() -> None:
    module = clwr.SoftAlignment(3).double()
    x, y = doubles(2, 3), doubles(4, 3, seed=1)
    scores = torch.stack(
        [torch.stack([module.weight.flatten() @ torch.cat([a, b, a * b]) for b in y]) for a in x]
    )
    torch.testing.assert_close(module(x, y), torch.softmax(scores, -1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("pooling", ["cls", "mean", "max"])
def test_vectors_of_sentences_by_hand(pooling: str) -> None:
    # Of sentences <s> x </s>, the shorter first: packing lays the longer one first, and ids put them back.
    states = {0: [[9.0, 1], [2, 4], [7, 7]], 1: [[8.0, 2], [1, 5], [3, 1], [5, 0], [6, 6]]}
    wanted = {
        "cls": [[9.0, 1], [8, 2]],
        "mean": [[2.0, 4], [3, 2]],
        "max": [[2.0, 4], [5, 5]],
    }
    sides = [
        xlco.sequence(np.array([*[11, 12][: 2 * i], 11, 2]), np.zeros(2 * i + 2, np.int64), i) for i in (0, 1)
    ]
    packed = pack(sides)
    assert [length for _, length in packed["net_input"]["runs"]] == [5, 3]

    def encoder(layer: int, **inputs: Any) -> torch.Tensor:
        assert layer == 2
        return torch.tensor(states[1] + states[0])

    found = xlco.sentence_vectors(encoder, packed, 2, pooling)  # type: ignore[arg-type]
    assert found.tolist() == wanted[pooling]


def test_the_queue_fills_first_in_first_out(build: Any) -> None:
    trainer, _ = build("xlco", "objectives.xlco.queue_size=5")
    state = trainer.get_model().extras["xlco"]
    assert len(state.negatives()) == 0
    keys = torch.arange(7.0)[:, None].expand(7, 32)
    state.push(keys[:3])
    assert state.negatives()[:, 0].tolist() == [0, 1, 2]
    state.push(keys[3:7])
    assert sorted(state.negatives()[:, 0].tolist()) == [2, 3, 4, 5, 6]
    state.push(keys[:1])
    assert sorted(state.negatives()[:, 0].tolist()) == [0, 3, 4, 5, 6]
    state.push(torch.cat([keys, keys + 10]))
    assert sorted(state.negatives()[:, 0].tolist()) == [12, 13, 14, 15, 16]


GATHER = """
import sys, torch, torch.distributed as dist
from xling.objectives.xlco import of_all_processes
rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method=sys.argv[2], rank=rank, world_size=2)
rows = torch.full((3 + rank, 2), float(rank))
print(of_all_processes(rows)[:, 0].tolist())
"""


def test_the_queues_of_several_processes_get_the_keys_of_all(tmp_path: Path) -> None:
    two = [forked.start("-c", GATHER, str(rank), f"file://{tmp_path}/meet") for rank in (0, 1)]
    for process in two:
        shown, _ = process.communicate(timeout=120)
        assert shown.split("\n")[0] == str([0.0] * 3 + [1.0] * 4)
    rows = torch.ones(2, 2)
    assert xlco.of_all_processes(rows) is rows


def test_the_momentum_encoder_moves_in_float32_and_drops_nothing(build: Any) -> None:
    trainer, _ = build("xlco", "model.precision=bf16", "model.dropout=.5")
    model = trainer.get_model()
    state = model.extras["xlco"]
    weight, slow = model.encoder.layers[0].up.weight, state.slow[0].layers[0].up.weight
    assert (weight.dtype, slow.dtype) == (torch.bfloat16, torch.float32)
    before = slow.clone()
    with torch.no_grad():
        weight += 1
    state.follow(model.encoder, 0.9999)
    torch.testing.assert_close(slow, before + 1e-4 * (weight.float() - before), rtol=0, atol=1e-8)
    assert not torch.equal(slow, before)
    assert not torch.equal(slow, slow.bfloat16().float())
    model.train()
    assert model.encoder.training
    assert not any(module.training for module in state.slow.modules())


def test_keys_are_computed_in_the_precision_of_the_model(build: Any) -> None:
    def is_rounded() -> bool:
        return all(
            torch.equal(one, master.bfloat16())
            for one, master in zip(state.working().parameters(), state.slow.parameters(), strict=True)
        )

    trainer, task = build("xlco", "model.precision=bf16")
    model, dataset = trainer.get_model(), task.build_dataset("valid")
    state, sample = model.extras["xlco"], dataset.collater([dataset[i] for i in (0, 1)])
    seen = list[torch.dtype]()
    state.working()[0].layers[0].register_forward_hook(lambda *given: seen.append(given[2].dtype))
    before = state.key(sample["key"])
    assert seen == [torch.bfloat16] and before.dtype == torch.float32 and is_rounded()
    with torch.no_grad():
        model.encoder.layers[0].up.weight += 1
    state.follow(model.encoder, 0.5)
    assert is_rounded() and not torch.equal(state.key(sample["key"]), before)
    saved = {name: tensor.clone() for name, tensor in state.state_dict().items()}
    assert len(saved) == len(list(state.slow.parameters())) + 3, "projection, queue and position"
    state.follow(model.encoder, 0.5)
    state.load_state_dict(saved)
    assert is_rounded()
    exact, _ = build("xlco", "model.precision=fp32")
    own = exact.get_model().extras["xlco"]
    assert own.working() is own.slow


def test_btmlm_fills_blanks_from_the_clean_sentence_with_pieces_of_the_other_language(build: Any) -> None:
    trainer, task = build("btmlm", "model.dropout=.5")
    task.load_dataset("train")
    dataset, model = task.dataset("train"), trainer.get_model()
    sample = dataset.collater([dataset[i] for i in (0, 1, 2, 3)])
    blank = sample["blank"]
    assert blank["id"].tolist() == sample["id"].tolist()
    seen = model.extras["btmlm"].seen
    present = dataset._streams["ar"]
    assert seen[task.langs.index("ar")].nonzero().flatten().tolist() == [
        i for i in np.unique(present) if i >= 4
    ]
    seen = torch.zeros_like(seen)
    for lang in range(3):
        seen[lang, 20 + 3 * lang : 23 + 3 * lang] = True
    model.train()
    filled = btmlm.fill(model, blank, seen)
    assert model.encoder.training
    assert torch.equal(filled, btmlm.fill(model, blank, seen))
    langs = blank["net_input"]["langs"][blank["chosen"]]
    assert seen[langs, filled].all()
    assert (filled >= 4).all()
    # One blank's piece depends on x and its own place, not on the other blanks.
    changed = {
        **blank,
        "net_input": {**blank["net_input"], "src_tokens": blank["net_input"]["src_tokens"].clone()},
    }
    changed["net_input"]["src_tokens"][blank["chosen"][1:]] = 7
    assert btmlm.fill(model, changed, seen)[0] == filled[0]


def test_btmlm_holds_the_logits_of_few_blanks_at_once(build: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer, task = build("btmlm")
    task.load_dataset("train")
    dataset, model = task.dataset("train"), trainer.get_model()
    blank = dataset.collater([dataset[i] for i in range(4)])["blank"]
    seen = torch.ones_like(model.extras["btmlm"].seen)
    whole, linear, vocab = btmlm.fill(model, blank, seen), F.linear, len(model.lm_head.weight)
    rows = []

    def counted(x: torch.Tensor, weight: torch.Tensor, *rest: Any) -> torch.Tensor:
        rows.extend([len(x)] * (len(weight) == vocab))
        return linear(x, weight, *rest)

    monkeypatch.setattr(F, "linear", counted)
    monkeypatch.setattr(btmlm, "LOGITS_BYTES", 3 * 4 * vocab)
    assert torch.equal(btmlm.fill(model, blank, seen), whole)
    assert max(rows) == 3 and sum(rows) == len(whole)

"""examples/nano.py: masks, losses and gradients of xling from the same weights and rows; from text to a table."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from xling import compat
from xling.corpora.toyworld import ToyworldConfig
from xling.corpora.toyworld import run as write_toyworld
from xling.data.masking import MaskRule
from xling.data.packing import pack
from xling.models.network.encoder import EncoderConfig, EncoderModel
from xling.objectives import mmlm, tlm
from xling.objectives.pairs import Pair

NUM_IDS = 60
RULE = MaskRule(prob=0.3, leave=0.1, random=0.1, mask_id=NUM_IDS - 1, first_piece=4, end_piece=NUM_IDS - 1)


@pytest.fixture(scope="module")
def nano() -> ModuleType:
    spec = importlib.util.spec_from_file_location("nano", Path(__file__).parents[1] / "examples" / "nano.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["nano"] = module  # dataclasses look it up there
    spec.loader.exec_module(module)
    return module


def rows(nano: ModuleType, objective: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows of the objective as nano builds them, of several lengths."""
    rng = np.random.default_rng(5)
    if objective == "mmlm":
        stream = rng.integers(4, NUM_IDS - 1, 40)
        return [next(nano.mmlm_rows([stream], nano.Settings(block=size), rng)) for size in (9, 14, 14)]
    pairs = [(rng.integers(4, NUM_IDS - 1, m).tolist(), rng.integers(4, NUM_IDS - 1, n).tolist()) for m, n in
             ((3, 5), (6, 2), (4, 4))]  # fmt: skip
    drawn = nano.tlm_rows(pairs, nano.Settings(), rng)
    return [next(drawn) for _ in pairs]


@pytest.mark.parametrize("objective", ["mmlm", "tlm"])
def test_losses_and_gradients_are_those_of_xling(nano: ModuleType, objective: str) -> None:
    compat.install()
    torch.manual_seed(1)
    shape = {"layers": 2, "dim": 16, "heads": 2, "ffn_dim": 32, "max_positions": 32}
    theirs = EncoderModel(EncoderConfig(**shape, precision="fp32", dropout=0.0), NUM_IDS)
    for weight in theirs.parameters():
        torch.nn.init.normal_(weight, std=0.3)  # far from the start, where most of the model adds nothing
    ours = nano.MaskedLM(nano.Settings(**shape), NUM_IDS)
    state = {name.removeprefix("lm_head."): weight for name, weight in theirs.state_dict().items()}
    assert not ours.load_state_dict(state, strict=False).missing_keys

    built = rows(nano, objective)
    batch = nano.batch_of(built, RULE.prob, RULE.mask_id, np.random.default_rng(3))
    rng, examples = np.random.default_rng(3), []
    for tokens, positions in built:
        if objective == "mmlm":
            example = mmlm.example(tokens, RULE, rng)
        else:
            first, second = np.split(tokens, [int(np.argmax(positions[1:] == 0)) + 1])
            example = tlm.example(Pair(first[1:], second[1:], 0, 1), RULE, True, rng)
        assert np.array_equal(example["positions"], positions)
        examples.append(example | {"id": np.array([0]), "target_langs": np.zeros_like(example["chosen"])})
    total = mmlm.masked_loss(theirs, pack(examples))
    expected = total.total / total.num
    loss = ours.loss(batch)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    loss.backward()
    expected.backward()
    wanted = {name.removeprefix("lm_head."): weight.grad for name, weight in theirs.named_parameters()}
    for name, weight in ours.named_parameters():
        assert weight.grad is not None
        torch.testing.assert_close(weight.grad, wanted[name], rtol=1e-4, atol=1e-6, msg=name)


def test_spans_need_both_ends_and_the_kind(nano: ModuleType) -> None:
    assert nano.spans(["B-PER", "I-PER", "O", "B-LOC", "B-LOC", "I-PER"]) == {
        (0, 2, "PER"), (3, 4, "LOC"), (4, 5, "LOC"), (5, 6, "PER")
    }  # fmt: skip
    assert nano.spans(["O", "I-ORG", "I-ORG"]) == {(1, 3, "ORG")}


@pytest.mark.seconds
def test_from_text_to_a_table(nano: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_toyworld(
        ToyworldConfig(out=str(tmp_path / "toy"), num_docs=40, num_pairs=40, num_ner=40, num_nli=10)
    )
    small = "vocab_size=400 layers=1 dim=16 heads=2 ffn_dim=32 updates=4 warmup=2 tune_epochs=1 batch_rows=4"
    table = nano.main([str(tmp_path / "toy"), *small.split()])
    assert list(table) == ["pre-trained", "random weights"]
    assert all(set(row) == {"de", "en", "es", "fr", "ru", "sw", "tr"} for row in table.values())
    printed = capsys.readouterr().out
    assert "update 4: masked LM" in printed and printed.rstrip().splitlines()[-1].startswith("random weights")
    with pytest.raises(AssertionError, match="unknown setting 'layer'; there are vocab_size"):
        nano.main([str(tmp_path / "toy"), "layer=1"])

"""Distillation: its losses worked by hand, and a student that comes closer to its teacher."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from xling.core.errors import UserError
from xling.core.output import manifest
from xling.data.packing import pack
from xling.models.files import model_weights
from xling.models.network.encoder import EncoderConfig, EncoderModel, projections
from xling.objectives.distill import hidden_loss, relation_loss, soft_loss, states_of
from xling.training import train


def small(seed: int, **shape: Any) -> EncoderModel:
    torch.manual_seed(seed)
    cfg = EncoderConfig(**({"layers": 2, "dim": 8, "heads": 2, "ffn_dim": 8, "dropout": 0.0} | shape))
    model = EncoderModel(cfg, 20).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return model


def batch(lengths: tuple[int, ...]) -> dict[str, Any]:
    generator = np.random.default_rng(4)
    return pack(
        [
            {"id": np.array([i]), "tokens": generator.integers(4, 20, n), "positions": np.arange(n)}
            for i, n in enumerate(lengths)
        ]
    )["net_input"]


def test_soft_loss_worked_by_hand() -> None:
    # At T = 2 the logits ln 9 and 0 are the odds 3 : 1, and 0 and 0 the odds 1 : 1.
    student, teacher = torch.tensor([[0.0, 0.0]] * 2), torch.tensor([[math.log(9), 0.0], [0.0, 0.0]])
    wanted = 4 * (0.75 * math.log(0.75 / 0.5) + 0.25 * math.log(0.25 / 0.5))
    assert soft_loss(student, teacher, 2.0).tolist() == pytest.approx([wanted, 0.0], abs=1e-6)


def test_hidden_loss_takes_every_second_layer_and_the_embeddings() -> None:
    teacher = [torch.full((3, 2), float(n)) for n in range(5)]  # four layers
    student = [torch.zeros(3, 1) for _ in range(3)]  # two, against 0, 2 and 4
    project = torch.nn.Linear(1, 2, bias=False)
    assert hidden_loss(student, teacher, project).item() == pytest.approx((0 + 4 + 16) / 3)


def test_relations_are_those_of_minilm_by_its_own_words() -> None:
    torch.manual_seed(2)
    runs = [(2, 3), (1, 2)]
    student, teacher = torch.randn(8, 3, 2, 3), torch.randn(8, 3, 4, 3)
    heads, sequences = 3, [range(0, 3), range(3, 6), range(6, 8)]
    wanted = 0.0
    for which in range(3):
        for tokens in sequences:
            for head in range(heads):
                maps = []
                for vectors in (teacher, student):
                    x = vectors[list(tokens), which].flatten(1)
                    width = x.shape[1] // heads
                    part = x[:, head * width : (head + 1) * width]
                    maps.append(torch.softmax(part @ part.T / math.sqrt(width), -1))
                wanted += float((maps[0] * (maps[0] / maps[1]).log()).sum()) / (heads * 8)
    assert relation_loss(student, teacher, heads, runs).item() == pytest.approx(wanted, rel=1e-5)
    assert relation_loss(student, student, heads, runs).item() == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("pre_norm", [False, True])
def test_states_are_those_of_the_model(pre_norm: bool) -> None:
    model, inputs = small(1, pre_norm=pre_norm), batch((5, 5, 3))
    states, hidden = states_of(model, inputs)
    assert len(states) == 3
    assert torch.equal(hidden, model(**inputs))
    assert torch.equal(model.encoder.final_norm(states[1]), model(**inputs, layer=1))


def test_queries_are_those_that_attention_reads() -> None:
    model, inputs = small(1), batch((4,))
    states, _ = states_of(model, inputs)
    layer = model.encoder.layers[1]
    q, k, v = projections(layer, states[1]).unbind(1)
    attended = F.scaled_dot_product_attention(*(x.transpose(0, 1)[None] for x in (q, k, v)))[0].transpose(
        0, 1
    )
    middle = layer.attn_norm(states[1] + layer.out(attended.flatten(1)))
    wanted = layer.ffn_norm(middle + layer.down(F.gelu(layer.up(middle))))
    torch.testing.assert_close(states[2], wanted)


@pytest.mark.parametrize("only", ["soft", "hidden", "relations"])
def test_each_loss_alone_teaches(only: str, build: Any, bitext: Path) -> None:
    off = {
        f"objectives.distill.{name}={int(name == only)}" for name in ("soft", "hidden", "relations", "hard")
    }
    trainer, task = build("distill", *off, "train.lr=1e-2", "model.dropout=0", "train.updates=1000")
    task.load_dataset("train")
    dataset = task.dataset("train")
    indices = dataset.batch_by_size(dataset.ordered_indices(), max_tokens=256)[0]
    sample = dataset.collater([dataset[int(i)] for i in indices])
    trainer.lr_step(1)
    losses = [trainer.train_step([sample])["loss"] for _ in range(40)]
    assert losses[-1] < 0.6 * losses[0], losses[::10]
    taught = trainer.get_model().extras["distill"].teacher.state_dict()
    before = model_weights.load_model(bitext.parent / "teacher")[0].state_dict()
    assert all(torch.equal(weight, taught[name]) for name, weight in before.items())


def test_a_copy_of_the_teacher_has_nothing_to_learn(bitext: Path, build: Any) -> None:
    shape = ["model.layers=3", "model.dim=48", "model.heads=4", "model.ffn_dim=64", "model.dropout=0"]
    _, task = build("distill", *shape, "objectives.distill.hard=0", f"init={bitext.parent}/teacher")
    trainer, task = build("distill", *shape, "objectives.distill.hard=0", f"init={bitext.parent}/teacher")
    task.load_dataset("train")
    dataset = task.dataset("train")
    sample = dataset.collater([dataset[i] for i in range(4)])
    loss = task.objectives["distill"].loss(trainer.get_model().eval(), sample)
    assert loss.num == len(sample["target"]) and abs(float(loss.total.detach())) < 1e-3 * loss.num


def test_a_student_starts_from_chosen_layers_and_the_teacher_is_no_part_of_it(
    bitext: Path, recipe: Any, tmp_path: Path
) -> None:
    teacher = bitext.parent / "teacher"
    shape = ["model.layers=2", "model.dim=48", "model.heads=4", "model.ffn_dim=64", "model.dropout=0"]
    words = [*shape, f"init={teacher}", "init_layers=[0,2]", "train.lr=1e-12"]
    made: Any = train.run(recipe(bitext, "distill", tmp_path / "out", *words))
    ours, theirs = (
        model_weights.load_model(folder)[0].state_dict() for folder in (tmp_path / "out", teacher)
    )
    for mine, yours in ((0, 0), (1, 2)):
        for part in ("qkv.weight", "down.bias"):
            name = f"encoder.layers.{mine}.{part}"
            torch.testing.assert_close(
                ours[name], theirs[f"encoder.layers.{yours}.{part}"], rtol=0, atol=1e-6
            )
    assert made.counts["parameters"] < sum(w.numel() for w in theirs.values()) + 48 * 48
    assert str(teacher) in manifest.read(tmp_path / "out").inputs
    log = [json.loads(line) for line in (tmp_path / "out" / "log.jsonl").read_text().splitlines()]
    assert math.isfinite(log[-1]["loss/distill"])


def test_what_cannot_teach_is_refused(bitext: Path, recipe: Any, refused: Any, tmp_path: Path) -> None:
    teacher = bitext.parent / "teacher"

    for said, *words in (
        ("no teacher to distill", "teacher="),
        ("temperature=0.0; valid: a number above 0", "temperature=0"),
        ("teacher_layer=4; valid: 1 to 3", "teacher_layer=4"),
        ("relation_heads=5; valid: a divisor of the widths 32 and 48", "relation_heads=5"),
        ("one of the first three above it", "soft=0", "hidden=0", "relations=0"),
        ("weights from 0", "soft=-1"),
    ):
        refused(said, bitext, "distill", tmp_path / "out", *(f"objectives.distill.{word}" for word in words))
    wrong = [f"init={teacher}", "model.dim=48", "model.heads=4", "model.ffn_dim=64"]
    for layers in ("0", "1,3"):
        with pytest.raises(UserError, match=f"init_layers={layers} of .*; valid: 2 of its layers, 0 to 2"):
            train.run(recipe(bitext, "distill", tmp_path / "out", *wrong, f"init_layers=[{layers}]"))
    with manifest.publish(tmp_path / "other", "pretrain", {}) as made:
        (made.path / "spm.model").write_bytes((bitext / "spm.model").read_bytes())
        lines = (bitext / "dict.txt").read_text(encoding="utf-8").splitlines(keepends=True)
        (made.path / "dict.txt").write_text("".join(lines[::-1]), encoding="utf-8")
        model = model_weights.load_model(teacher)[0]
        model_weights.save_model(made.path / "model.pt", model, ["en"], made.path)
    other = f"objectives.distill.teacher={tmp_path}/other"
    refused("was trained with vocabulary", bitext, "distill", tmp_path / "out", other)

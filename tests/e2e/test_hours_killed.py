"""`run hour`, `run small_encoder` and `run evening`, killed by SIGKILL at many moments: the same bytes in the end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.e2e.test_hour import data  # noqa: F401 - a fixture
from tests.e2e.test_recipes_killed import MODULES, contents
from tests.killed import attempts
from xling.core.output import manifest

ARRAYS = ("*.npy", "*.npz", "*.safetensors", "*.bin", "*.idx", "dict.*", "rows.json")
"""Files that are compared beside those of all recipes."""
LETTERS = "bdfgklmnprstaeiouyvzhj"
EMBEDDED = {"position_embeddings": 64, "token_type_embeddings": 2}
PART = "encoder.layer.0"
LAYERS = {
    "embeddings.LayerNorm": (16, 0),
    **{f"{PART}.attention.self.{name}": (16, 16) for name in ("query", "key", "value")},
    f"{PART}.attention.output.dense": (16, 16),
    f"{PART}.attention.output.LayerNorm": (16, 0),
    f"{PART}.intermediate.dense": (32, 16),
    f"{PART}.output.dense": (16, 32),
    f"{PART}.output.LayerNorm": (16, 0),
}
"""Name of a layer of the body -> rows and columns of its weight; 0 columns for a vector."""
UPDATES = ("updates=6", "rows=64", "save_minutes=1e-9", "model.dim=16", "model.bits=10")


def hour(folder: Path, model: Path) -> list[str]:
    words = ["steps_at_once=1", "seeds=1", "dim=16", "bits=10", "pairs=40", "rows=40"]
    for name in ("encoder", "encoder_ntrex", "encoder_all"):
        words += [f"{name}.updates=6", f"{name}.rows=64", f"{name}.save_minutes=1e-9"]
    for name, suite in (("names", "uner"), ("tags", "udpos"), ("texts", "sib200"), ("requests", "xsid")):
        words += [f"{each}.suites={suite}" for each in (name, f"{name}_controls")]
        words += [f"{each}.fit.epochs=1" for each in (name, f"{name}_controls")]
        words.append(f"{name}_controls.systems=random,majority,dictionary")
    return words


def small_encoder(folder: Path, model: Path) -> list[str]:
    return [
        f"teacher={model}",
        "langs=en,de",
        "texts=50",
        "dim=16",
        "bits=10",
        *(f"encoder.{x}" for x in UPDATES),
    ]


def evening(folder: Path, model: Path) -> list[str]:
    """The body is a BERT of one layer, whose pieces are two words and letters."""
    pieces = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "ba",
        "di",
        *LETTERS,
        *(f"##{letter}" for letter in LETTERS),
    ]
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    settings = {"model_type": "bert", "vocab_size": len(pieces), "max_position_embeddings": 64, **sizes}
    shapes = {f"embeddings.{name}.weight": (size, 16) for name, size in EMBEDDED.items()}
    shapes["embeddings.word_embeddings.weight"] = (len(pieces), 16)
    for name, (rows, columns) in LAYERS.items():
        shapes |= {f"{name}.weight": (rows, columns) if columns else (rows,), f"{name}.bias": (rows,)}
    rng, body = np.random.default_rng(1), folder / "body"
    body.mkdir()
    (body / "config.json").write_text(json.dumps(settings))
    (body / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces))
    save_file(
        {k: rng.normal(0, 0.1, v).astype(np.float32) for k, v in shapes.items()}, body / "model.safetensors"
    )
    words = [
        f"body=hf:{body}",
        "scale=tiny",
        *(f"static.{x}" for x in UPDATES),
        "vocab.size=80",
        "pairs.limit=60",
    ]
    shape = {"layers": 1, "dim": 16, "heads": 2, "ffn_dim": 32, "max_positions": 64}
    words += [f"model.model.{name}={value}" for name, value in shape.items()]
    words += ["model.train.updates=4", "model.train.valid_every=4", "model.train.save_every=2"]
    words += ["model.objectives.teach.tokens_per_sample=32"]
    return [
        *words,
        "rows=20",
        "tags.systems=pretrained",
        "texts.suites=sib200",
        "tags.suites=udpos",
        "pairs_of_texts.suites=tatoeba",
    ]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("recipe", "stride"), [(hour, 25), (small_encoder, 5), (evening, 16)])
def test_killed_at_many_moments_it_ends_in_the_same_bytes(
    recipe: Callable[[Path, Path], list[str]],
    stride: int,
    data: Path,  # noqa: F811
    model: Path,
    tmp_path: Path,
) -> None:
    out, calm = tmp_path / "out", tmp_path / "undisturbed"
    words = ["run", recipe.__name__, f"data={data}", f"out={out}", *recipe(tmp_path, model)]
    code, deaths = attempts(words, MODULES, 20, stride, (out, calm))
    assert code == 0 and deaths > 1

    wanted, found = contents(calm), contents(out)
    assert wanted.keys() == found.keys()
    assert not [name for name in wanted if wanted[name] != found[name]]
    for pattern in ARRAYS:
        for path in calm.rglob(pattern):
            if path.parent.name == "vectors":  # named by the digest of a checkpoint, which holds times
                continue
            assert (out / path.relative_to(calm)).read_bytes() == path.read_bytes(), path
    assert len([*calm.rglob("scores.json")]) > 1
    assert all(manifest.verify(path.parent) for path in out.rglob(manifest.FILE_NAME))

"""The four steps of Artetxe et al.: body in L1, embeddings of L2 under it, fine-tuning, swap."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.rows import Sentence
from tests.tuning import fine_tune
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.corpora.binarize import BinarizeConfig
from xling.corpora.binarize import run as binarize
from xling.models.files import model_weights
from xling.text.files.shards import vocab_digest
from xling.text.vocab import VocabConfig
from xling.text.vocab import run as make_vocab
from xling.training import train
from xling.transfer import swap_embeddings, tune
from xling.transfer.settings import TuneConfig


def shards_of(lang: str, corpus: Path, folder: Path) -> Path:
    """Shards of one language over a vocabulary of its own."""
    text = {lang: (str(corpus / f"{lang}.txt"),)}
    size = {"en": 60, "ar": 44}[lang]
    make_vocab(VocabConfig(corpora=text, out=str(folder / f"{lang}-vocab"), size=size, coverage=1.0))
    binarize(BinarizeConfig(vocab=str(folder / f"{lang}-vocab"), out=str(folder / lang), corpora=text))
    return folder / lang


@pytest.fixture(scope="module")
def steps(corpus: Path, recipe: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``body`` (en) and ``embeddings`` (ar under the frozen body)."""
    folder = tmp_path_factory.mktemp("monotrans")
    english, arabic = (shards_of(lang, corpus, folder) for lang in ("en", "ar"))
    train.run(recipe(english, "mmlm", folder / "body"))
    train.run(recipe(arabic, "mmlm", folder / "embeddings", f"init={folder}/body", "freeze=body"))
    return folder


def test_step_two_learns_embeddings_and_leaves_the_body(steps: Path) -> None:
    body, embeddings = (
        model_weights.load_model(steps / name)[0].state_dict() for name in ("body", "embeddings")
    )
    learned = {"encoder.tokens.weight", "lm_head.weight", "lm_head.bias"}
    assert body.keys() == embeddings.keys()
    for name, weight in body.items():
        if name not in learned:
            assert torch.equal(weight, embeddings[name]), name
    assert vocab_digest(steps / "body") != vocab_digest(steps / "embeddings")
    assert not torch.equal(embeddings["lm_head.bias"], torch.zeros_like(embeddings["lm_head.bias"]))


def test_steps_three_and_four_predict_in_the_second_language(steps: Path, tmp_path: Path) -> None:
    rows = [
        Sentence("The teacher sees a red boat", "boat"),
        Sentence("My neighbour likes fresh bread", "bread"),
    ] * 4
    cfg = TuneConfig(lr=1e-3, epochs=1, batch_rows=4, freeze_embeddings=True, precision="fp32")
    (tuned,) = fine_tune(steps / "body", "classify", ("boat", "bread"), rows, cfg)
    body, _ = model_weights.load_model(steps / "body")
    assert torch.equal(tuned.model.encoder.tokens.weight, body.encoder.tokens.weight)
    assert not torch.equal(tuned.model.encoder.layers[0].up.weight, body.encoder.layers[0].up.weight)
    task = tmp_path / "task"
    with manifest.publish(task, "finetune", cfg, [steps / "body"]) as made:
        tune.save_tuned(tuned, made.path, steps / "body", ["en"])
    made_of = swap_embeddings.run(
        swap_embeddings.SwapConfig(str(task), str(tmp_path / "swapped"), str(steps / "embeddings"))
    )
    assert made_of.counts["langs"] == ["ar"]
    swapped = tune.load_tuned(tmp_path / "swapped", "ar")
    embeddings, _ = model_weights.load_model(steps / "embeddings")
    assert torch.equal(swapped.model.encoder.tokens.weight, embeddings.encoder.tokens.weight)
    assert torch.equal(swapped.model.encoder.layers[0].up.weight, tuned.model.encoder.layers[0].up.weight)
    assert torch.equal(swapped.model.classifier.weight, tuned.model.classifier.weight)
    assert set(swapped.predict([Sentence("المعلمة ترى قاربا أحمر", "boat")])) <= {"boat", "bread"}


def test_another_vocabulary_or_shape_is_refused_unless_the_body_is_frozen(
    steps: Path, recipe: Any, tmp_path: Path
) -> None:
    arabic, init = steps / "ar", f"init={steps}/body"
    with pytest.raises(UserError, match="body was trained with vocabulary"):
        train.run(recipe(arabic, "mmlm", tmp_path / "out", init))
    with pytest.raises(UserError, match=r"init=.*: encoder.* is \(32,\); valid: \(16,\)"):
        train.run(recipe(arabic, "mmlm", tmp_path / "out", init, "freeze=body", "model.dim=16"))


def test_a_training_with_nothing_to_learn_is_refused(steps: Path, recipe: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="freeze=encoder leaves nothing to learn"):
        train.run(recipe(steps / "en", "mmlm", tmp_path / "out", "freeze=encoder"))
    assert not (tmp_path / "out").exists()


def test_frozen_embeddings_stay(steps: Path, recipe: Any, tmp_path: Path) -> None:
    cfg = recipe(steps / "en", "mmlm", tmp_path / "out", f"init={steps}/body", "freeze=embeddings")
    train.run(cfg)
    old, new = (model_weights.load_model(path)[0] for path in (steps / "body", tmp_path / "out"))
    assert torch.equal(old.encoder.tokens.weight, new.encoder.tokens.weight)
    assert not torch.equal(old.encoder.layers[0].up.weight, new.encoder.layers[0].up.weight)

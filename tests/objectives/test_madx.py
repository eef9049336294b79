"""MAD-X: language adapters under a frozen body, a task adapter on top, and the swap."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.rows import Sentence
from tests.tuning import fine_tune
from xling import cli
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.models.files import model_weights
from xling.models.network import adapters
from xling.models.network.encoder import EncoderModel
from xling.training import assemble, train
from xling.transfer import swap_embeddings, tune
from xling.transfer.settings import TuneConfig

WITH = ("model.lang_adapter=6", "model.invertible=true", "freeze=body", "train.lr=1e-2")


ROWS = [
    Sentence("The teacher sees a red boat", "boat"),
    Sentence("My neighbour likes fresh bread", "bread"),
] * 4
TUNE = TuneConfig(lr=1e-2, epochs=1, batch_rows=4, task_adapter=4, precision="fp32")


@pytest.fixture(scope="module")
def steps(bitext: Path, recipe: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``body`` on all languages, ``en`` and ``ar`` with adapters on one each, ``task`` on top of ``en``."""
    folder = tmp_path_factory.mktemp("madx")
    train.run(recipe(bitext, "mmlm", folder / "body"))
    for lang in ("en", "ar"):
        train.run(recipe(bitext, "mmlm", folder / lang, f"init={folder}/body", f"langs={lang}", *WITH))
    (tuned,) = fine_tune(folder / "en", "classify", ("boat", "bread"), ROWS, TUNE)
    with manifest.publish(folder / "task", "finetune", TUNE, [folder / "en"]) as made:
        tune.save_tuned(tuned, made.path, folder / "en", ["en"])
    return folder


def state(folder: Path) -> dict[str, torch.Tensor]:
    return model_weights.load_model(folder)[0].state_dict()


def test_only_the_adapters_have_learned(steps: Path) -> None:
    body = state(steps / "body")
    for lang in ("en", "ar"):
        found = state(steps / lang)
        assert all(torch.equal(weight, found[name]) for name, weight in body.items())
        new = found.keys() - body.keys()
        assert new and all(adapters.is_adapter(name) for name in new)
        for name in new:
            if name.endswith("up.bias"):
                assert found[name].abs().sum() > 0, name
        counts = manifest.read(steps / lang).counts
        assert counts["frozen"]["parameters"] == sum(
            w.numel() for n, w in body.items() if n != "lm_head.weight"
        )


def test_a_change_of_what_is_frozen_is_found(
    steps: Path, bitext: Path, recipe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def thaw(trainer: Any, *rest: Any) -> Any:
        with torch.no_grad():
            trainer.get_model().encoder.tokens.weight[7, 7] += 1e-3
        return whole(trainer, *rest)

    whole = train.validate
    monkeypatch.setattr(train, "validate", thaw)
    cfg = recipe(bitext, "mmlm", tmp_path / "out", f"init={steps}/body", *WITH)
    with pytest.raises(AssertionError, match="freeze=body: frozen weights have changed"):
        train.run(cfg)
    assert not (tmp_path / "out").exists()


def test_the_task_adapter_is_on_top_and_the_language_adapter_is_swapped(steps: Path, tmp_path: Path) -> None:
    made = swap_embeddings.run(
        swap_embeddings.SwapConfig(str(steps / "task"), str(tmp_path / "out"), adapters=str(steps / "ar"))
    )
    assert made.counts["langs"] == ["ar"]
    before, after = (
        tune.load_tuned(folder).model.state_dict() for folder in (steps / "task", tmp_path / "out")
    )
    english, arabic = state(steps / "en"), state(steps / "ar")
    assert before.keys() == after.keys()
    for name, weight in after.items():
        if ".adapters.lang." in name or "invertible" in name:
            assert torch.equal(weight, arabic[name]) and torch.equal(before[name], english[name]), name
        else:
            assert torch.equal(weight, before[name]), name
    moved = [name for name in after if not torch.equal(after[name], before[name])]
    assert moved
    assert set(tune.load_tuned(tmp_path / "out").predict([Sentence("المعلمة ترى قاربا أحمر", "boat")])) <= {
        "boat",
        "bread",
    }


def test_embeddings_are_learned_anew_where_the_vocabulary_is_another(
    steps: Path, corpus: Path, recipe: Any, tmp_path: Path
) -> None:
    from xling.corpora.binarize import BinarizeConfig
    from xling.corpora.binarize import run as binarize
    from xling.text.vocab import VocabConfig
    from xling.text.vocab import run as make_vocab

    text = {"ar": (str(corpus / "ar.txt"),)}
    make_vocab(VocabConfig(corpora=text, out=str(tmp_path / "vocab"), size=44, coverage=1.0))
    binarize(BinarizeConfig(vocab=str(tmp_path / "vocab"), out=str(tmp_path / "shards"), corpora=text))
    train.run(recipe(tmp_path / "shards", "mmlm", tmp_path / "ar", f"init={steps}/body", *WITH))
    body, found = state(steps / "body"), state(tmp_path / "ar")
    for name, weight in body.items():
        assert (name in assemble.EMBEDDINGS) or torch.equal(weight, found[name]), name
    assert found["encoder.tokens.weight"].shape != body["encoder.tokens.weight"].shape
    assert found["lm_head.bias"].abs().sum() > 0
    config = swap_embeddings.SwapConfig(
        str(steps / "task"), str(tmp_path / "out"), adapters=str(tmp_path / "ar")
    )
    with pytest.raises(
        UserError, match=r"another vocabulary than that of .*; fix: use its embeddings as well"
    ):
        swap_embeddings.run(config)
    both = swap_embeddings.SwapConfig(
        str(steps / "task"), str(tmp_path / "out"), str(tmp_path / "ar"), str(tmp_path / "ar")
    )
    assert swap_embeddings.run(both).counts["vocabulary"] == len(found["encoder.tokens.weight"])


def test_what_does_not_fit_is_refused(steps: Path, bitext: Path, recipe: Any, tmp_path: Path) -> None:
    def swapped(task: Path, source: Path) -> None:
        swap_embeddings.run(
            swap_embeddings.SwapConfig(str(task), str(tmp_path / "out"), adapters=str(source))
        )

    with pytest.raises(UserError, match=r"body has 2 layers of 32, no language adapter.*; valid: .* width 6"):
        swapped(steps / "task", steps / "body")
    with pytest.raises(UserError, match="neither embeddings= nor adapters= is given"):
        swap_embeddings.run(swap_embeddings.SwapConfig(str(steps / "task"), str(tmp_path / "out")))
    torch.manual_seed(5)
    with manifest.publish(tmp_path / "other", "pretrain", {}) as made:
        for name in ("dict.txt", "spm.model"):
            (made.path / name).write_bytes((steps / "en" / name).read_bytes())
        vocab_size = len(state(steps / "en")["encoder.tokens.weight"])
        other = EncoderModel(model_weights.load_model(steps / "en")[0].cfg, vocab_size)
        model_weights.save_model(made.path / "model.pt", other, ["ar"], made.path)
    with pytest.raises(
        UserError, match=r"has adapters that were trained with other frozen weights than .*task: .* differs"
    ):
        swapped(steps / "task", tmp_path / "other")
    plain = fine_tune(steps / "body", "classify", ("boat", "bread"), ROWS, TUNE)[-1]
    with manifest.publish(tmp_path / "plain", "finetune", TUNE, [steps / "body"]) as made:
        tune.save_tuned(plain, made.path, steps / "body", ["en"])
    with pytest.raises(UserError, match="plain has no language adapter"):
        swapped(tmp_path / "plain", steps / "ar")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("model.lang_adapter=-1",), r"model.lang_adapter=-1; valid: a width from 1"),
        (("model.invertible=true", "model.dim=33", "model.heads=3"), r"model.invertible with model.dim=33"),
    ],
)
def test_wrong_shapes_are_refused(
    bitext: Path, recipe: Any, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        train.run(recipe(bitext, "mmlm", tmp_path / "out", *words))


def test_adapters_of_a_model_with_a_decoder_are_refused(
    bitext: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [f"data={bitext}", f"out={tmp_path}/out", "objectives={dae: {}}", "model.lang_adapter=4"]
    assert cli.main(["pretrain", *words]) == 2
    assert "model.lang_adapter with objectives.dae, which has a decoder" in capsys.readouterr().err

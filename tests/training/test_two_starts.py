"""A model with a decoder that starts from two others: ``encoder=DIR decoder=DIR``."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.training.conftest import settings
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.settings import config
from xling.corpora.binarize import BinarizeConfig
from xling.corpora.binarize import run as binarize
from xling.data.packing import pack_seq2seq
from xling.data.symbols import Symbols
from xling.models.files.model_weights import load_seq2seq, mask_of, save_model
from xling.models.network.encoder import EncoderConfig, EncoderModel
from xling.models.network.seq2seq import Seq2SeqConfig, Seq2SeqModel
from xling.objectives.seq2seq import example
from xling.static.new_rows import Vocabulary
from xling.text.vocab import VocabConfig
from xling.text.vocab import run as make_vocab
from xling.training import checks
from xling.training.assemble import build_trainer
from xling.transfer import plans
from xling.transfer.settings import MtConfig, UmtConfig

SHAPE = {"layers": 2, "dim": 32, "heads": 2, "ffn_dim": 64, "max_positions": 64, "precision": "fp32"}
DAE = ("objectives={dae: {tokens_per_sample: 64}}", "model.precision=fp32")


def published(vocab: Path, folder: Path, seed: int, lang: str, decoder: int = 0, **more: Any) -> Path:
    """A model of random weights over a vocabulary; with a decoder of ``decoder`` layers if there are any."""
    torch.manual_seed(seed)
    shape, size = {**SHAPE, **more}, mask_of(vocab) + 1
    model: EncoderModel = (
        Seq2SeqModel(Seq2SeqConfig(**shape, decoder_layers=decoder), size + 101)
        if decoder
        else EncoderModel(EncoderConfig(**shape), size, int(bool(more.get("lang_embeddings"))))
    )
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    with manifest.publish(folder, "pretrain", model.cfg) as made:
        for name in ("dict.txt", "spm.model"):
            shutil.copy(vocab / name, made.path / name)
        save_model(made.path / "model.pt", model, [lang], made.path)
    return folder


@pytest.fixture(scope="module")
def two(vocab: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("two")
    return published(vocab, folder / "en", 1, "en"), published(vocab, folder / "ar", 2, "ar")


@pytest.fixture(scope="module")
def arabic(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model over a vocabulary of Arabic alone."""
    folder = tmp_path_factory.mktemp("arabic")
    make_vocab(VocabConfig(corpora={"ar": (str(corpus / "ar.txt"),)}, out=str(folder / "vocab"), size=40))
    return published(folder / "vocab", folder / "ar", 3, "ar")


def made(shards: Path, tiny: tuple[str, ...], out: Path, *words: str) -> Seq2SeqModel:
    cfg = settings(shards, tiny, out, *DAE, *words)
    checks.check(cfg)
    model = build_trainer(cfg, out)[0].get_model()
    assert isinstance(model, Seq2SeqModel)
    return model


def weights(folder: Path) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = torch.load(folder / "model.pt", weights_only=True)["weights"]
    return found


@pytest.mark.parametrize("cross", ["random", "self"])
def test_each_side_is_that_of_its_model(
    shards: Path, tiny: tuple[str, ...], two: tuple[Path, Path], tmp_path: Path, cross: str
) -> None:
    start = (f"encoder={two[0]}", f"decoder={two[1]}", "model.decoder_embeddings=true")
    model = made(shards, tiny, tmp_path / "out", *start, f"cross={cross}").state_dict()
    fresh = made(shards, tiny, tmp_path / "fresh", "model.decoder_embeddings=true").state_dict()
    first, second = map(weights, two)
    mask = mask_of(two[0])
    for name, weight in first.items():
        if name.startswith("encoder.") and name != "encoder.tokens.weight":
            assert torch.equal(model[name], weight), name
        if name.startswith("encoder.layers.") or name == "encoder.positions.weight":
            mine = name.replace("encoder.", "decoder.")
            assert torch.equal(model[mine], second[name]) and not torch.equal(model[mine], weight), name
    assert torch.equal(model["encoder.tokens.weight"][: mask + 1], first["encoder.tokens.weight"])
    assert torch.equal(model["decoder.words.weight"][: mask + 1], second["encoder.tokens.weight"])
    assert torch.equal(model["decoder.head.weight"], model["decoder.words.weight"])
    assert torch.equal(model["decoder.head.dense.weight"], second["lm_head.dense.weight"])
    assert torch.equal(model["decoder.head.bias"][: mask + 1], second["lm_head.bias"])
    for layer in ("0", "1"):
        at, of = f"decoder.layers.{layer}.cross_", f"encoder.layers.{layer}."
        if cross == "random":
            for name in ("query.weight", "kv.weight", "out.weight", "norm.weight"):
                assert torch.equal(model[at + name], fresh[at + name])
        else:
            assert torch.equal(model[at + "query.weight"], first[of + "qkv.weight"][:32])
            assert torch.equal(model[at + "kv.bias"], first[of + "qkv.bias"][32:])
            assert torch.equal(model[at + "out.weight"], first[of + "out.weight"])
            assert torch.equal(model[at + "norm.weight"], first[of + "attn_norm.weight"])


@pytest.mark.parametrize("tables", ["true", "false"])
def test_a_decoder_from_an_encoder_knows_no_later_token_and_reads_the_source(
    shards: Path, tiny: tuple[str, ...], two: tuple[Path, Path], tmp_path: Path, tables: str
) -> None:
    """The start of the decoder read both sides of a token."""
    start = (f"encoder={two[0]}", f"decoder={two[1]}", f"model.decoder_embeddings={tables}", "cross=self")
    model = made(shards, tiny, tmp_path / "out", *start).eval()
    symbols = Symbols(mask_of(two[0]), ("en", "ar"))

    def states(source: list[int], target: list[int]) -> torch.Tensor:
        row = example(np.array([*source, 2]), np.array([*target, 2]), 0, 1, symbols) | {"id": np.array([0])}
        found: torch.Tensor = model(**pack_seq2seq([row])["net_input"])
        return found

    plain, later = states([5, 6, 7], [9, 10, 11]), states([5, 6, 7], [9, 10, 12])
    torch.testing.assert_close(later[:3], plain[:3], atol=1e-5, rtol=1e-4)
    assert not torch.allclose(later[3:], plain[3:], atol=1e-4)
    assert not torch.allclose(states([5, 8, 7], [9, 10, 11])[0], plain[0], atol=1e-4)


def test_one_table_is_the_encoders_and_it_is_told(
    shards: Path,
    tiny: tuple[str, ...],
    two: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = made(shards, tiny, tmp_path / "out", f"encoder={two[0]}", f"decoder={two[1]}")
    assert model.decoder.head.weight is model.encoder.tokens.weight
    first = weights(two[0])["encoder.tokens.weight"]
    assert torch.equal(model.encoder.tokens.weight[: len(first)], first)
    assert (
        f"those of {two[1]} are left out; model.decoder_embeddings=true keeps both" in capsys.readouterr().err
    )


def test_rows_of_another_vocabulary_go_to_equal_pieces(
    shards: Path,
    tiny: tuple[str, ...],
    two: tuple[Path, Path],
    arabic: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    names, old_names = (Vocabulary.read(folder).names for folder in (shards, arabic))
    shared = [name for name in names if name in old_names]
    assert 5 < len(shared) < len(names)
    old = weights(arabic)
    for side, other in (("decoder", "encoder"), ("encoder", "decoder")):
        start = (f"{side}={arabic}", f"{other}={two[0]}", "model.decoder_embeddings=true")
        model = made(shards, tiny, tmp_path / side, *start).state_dict()
        table = model["encoder.tokens.weight" if side == "encoder" else "decoder.words.weight"]
        for name in shared:
            mine, theirs = names.index(name) + 4, old_names.index(name) + 4
            assert torch.equal(table[mine], old["encoder.tokens.weight"][theirs]), name
            if side == "decoder":
                assert model["decoder.head.bias"][mine] == old["lm_head.bias"][theirs]
        assert f"embeddings of {arabic}: {len(shared)} copied" in capsys.readouterr().err
    with pytest.raises(
        UserError, match=r"has another vocabulary than .*fix: give model\.decoder_embeddings=true"
    ):
        made(shards, tiny, tmp_path / "one", f"encoder={two[0]}", f"decoder={arabic}")


def test_a_decoder_of_a_model_with_one_is_taken_without_its_cross_attention(
    shards: Path, tiny: tuple[str, ...], vocab: Path, two: tuple[Path, Path], tmp_path: Path
) -> None:
    other = published(vocab, tmp_path / "other", 4, "ar", decoder=1)
    start = (f"decoder={other}", "model.decoder_layers=1", "model.decoder_embeddings=true")
    model = made(shards, tiny, tmp_path / "out", f"encoder={two[0]}", *start).state_dict()
    theirs = weights(other)
    assert torch.equal(model["decoder.layers.0.up.weight"], theirs["decoder.layers.0.up.weight"])
    assert torch.equal(model["decoder.head.dense.bias"], theirs["decoder.head.dense.bias"])
    assert not torch.equal(
        model["decoder.layers.0.cross_kv.weight"], theirs["decoder.layers.0.cross_kv.weight"]
    )
    swapped = (f"encoder={other}", f"decoder={two[0]}", "model.decoder_embeddings=true")
    model = made(shards, tiny, tmp_path / "swapped", *swapped).state_dict()
    assert torch.equal(model["encoder.layers.1.up.weight"], theirs["encoder.layers.1.up.weight"])


def test_translation_takes_shape_and_languages_of_both(
    corpus: Path, vocab: Path, two: tuple[Path, Path], tmp_path: Path
) -> None:
    text = {lang: str(corpus / f"{lang}.txt") for lang in ("en", "ar")}
    for lang, path in text.items():
        lines = [line for line in Path(path).read_text("utf-8").splitlines() if line][:20]
        (tmp_path / lang).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    binarize(
        BinarizeConfig(
            vocab=str(vocab),
            out=str(tmp_path / "data"),
            corpora={lang: (path,) for lang, path in text.items()},
            pairs={"en-ar": (str(tmp_path / "en"), str(tmp_path / "ar"))},
        )
    )
    common = [
        f"data={tmp_path}/data",
        f"out={tmp_path}/out",
        f"encoder={two[0]}",
        f"decoder={two[1]}",
        "cross=self",
    ]
    mt = plans.plan_mt(config.load(MtConfig, overrides=[*common, "directions=en-ar"]), tmp_path / "out")
    umt = plans.plan_umt(config.load(UmtConfig, overrides=[*common, "pairs=en-ar"]), tmp_path / "out")
    for training in (mt, umt):
        assert (
            training.langs == ("en", "ar") and training.model.dim == 32 and training.model.decoder_layers == 2
        )
        assert (training.encoder, training.decoder) == (str(two[0]), str(two[1])) and training.cross == "self"


def test_a_model_with_two_tables_is_saved_and_read_as_it_is(
    shards: Path, tiny: tuple[str, ...], two: tuple[Path, Path], tmp_path: Path
) -> None:
    start = (f"encoder={two[0]}", f"decoder={two[1]}", "model.decoder_embeddings=true")
    model = made(shards, tiny, tmp_path / "out", *start)
    for name in ("dict.txt", "spm.model"):
        shutil.copy(two[0] / name, tmp_path / name)
    save_model(tmp_path / "model.pt", model, ["ar", "en", "th"], tmp_path)
    again, _ = load_seq2seq(tmp_path)
    for name, weight in model.state_dict().items():
        if not name.startswith("extras."):
            assert torch.equal(again.state_dict()[name], weight), name
    ids = torch.tensor([5, 9])
    assert torch.equal(again.read(ids), model.state_dict()["decoder.words.weight"][ids])
    assert again.decoder.head.weight is again.decoder.words.weight  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("words", "pattern"),
    [
        (["encoder={0}"], "encoder=.* decoder=; valid: both, or neither; fix: init=MODEL starts both"),
        (["encoder={0}", "decoder={1}", "init={0}"], "beside another start, .*; fix: leave init= out"),
        (
            ["encoder={0}", "decoder={1}", "objectives={{mmlm: {{}}}}"],
            "without an objective that has a decoder",
        ),
        (
            ["encoder={0}", "decoder={1}", "model.decoder_layers=1"],
            "model.decoder_layers=1 with decoder=.* has 2",
        ),
        (["encoder={0}", "decoder={1}", "model.dim=16"], "has model.dim=32, not 16"),
        (["encoder={0}", "decoder={1}", "model.decoder_layers=3", "cross=self"], "cross=self with 2 layers"),
        (["encoder={0}", "decoder={1}", "model.lang_embeddings=true"], "has language embeddings for en"),
        (["encoder={0}", "decoder=nowhere"], "nowhere has no manifest.json"),
    ],
)
def test_mistakes_are_named(
    shards: Path,
    tiny: tuple[str, ...],
    two: tuple[Path, Path],
    tmp_path: Path,
    words: list[str],
    pattern: str,
) -> None:
    with pytest.raises(UserError, match=pattern):
        made(shards, tiny, tmp_path / "out", *(word.format(*two) for word in words))


def test_cross_without_two_models_is_an_error() -> None:
    from xling.core.settings import unused
    from xling.training.settings import PretrainConfig

    with pytest.raises(UserError, match="cross=self changes nothing here: it needs encoder= and decoder="):
        unused.check("pretrain", PretrainConfig(data="d", out="o", cross="self"))

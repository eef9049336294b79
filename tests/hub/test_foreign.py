"""Encoders that transformers computes: equal states, ids and scores, and every command that reads a checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

from xling.core import inputs
from xling.core.errors import UserError
from xling.core.stage import load
from xling.hub.export import run_hf as export_hf
from xling.hub.imports import run_hf
from xling.hub.settings import ExportConfig, ImportConfig
from xling.models import checkpoint
from xling.text import vocab
from xling.transfer import tune
from xling.transfer.backend import EncoderBackend
from xling.transfer.encode import pieces
from xling.transfer.settings import TuneConfig

LINES = (
    "The old woman sees a red boat near the river.", "two books", "جارتي تبيع خبزا", "หญิงชรา", "naïve Ångström",
)  # fmt: skip
SMALL = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 48}


def byte_level(text: list[str]) -> Any:
    """RoBERTa's kind of tokenizer: a merge is made of bytes."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    names = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        text, trainers.BpeTrainer(vocab_size=320, special_tokens=names, initial_alphabet=alphabet)
    )
    made.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return made, dict(
        zip(("bos_token", "pad_token", "eos_token", "unk_token", "mask_token"), names, strict=True)
    )


def wordpiece(text: list[str]) -> Any:
    """BERT's kind."""
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = (
        normalizers.BertNormalizer(lowercase=False),
        pre_tokenizers.BertPreTokenizer(),
    )
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    made.train_from_iterator(text, trainers.WordPieceTrainer(vocab_size=200, special_tokens=names))
    return made, dict(
        zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), names, strict=True)
    )


def unigram(text: list[str]) -> Any:
    """DeBERTa v3's kind."""
    made = Tokenizer(models.Unigram())
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    names = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
    made.train_from_iterator(
        text, trainers.UnigramTrainer(vocab_size=180, special_tokens=names, unk_token="[UNK]")
    )
    return made, dict(
        zip(("pad_token", "cls_token", "sep_token", "unk_token", "mask_token"), names, strict=True)
    )


KINDS: dict[str, tuple[Callable[[list[str]], Any], dict[str, Any]]] = {
    "roberta": (byte_level, SMALL | {"max_position_embeddings": 66, "pad_token_id": 1}),
    "camembert": (byte_level, SMALL | {"max_position_embeddings": 66, "pad_token_id": 1}),
    "xlm-roberta-xl": (byte_level, SMALL | {"max_position_embeddings": 66, "pad_token_id": 1}),
    "mpnet": (byte_level, SMALL | {"max_position_embeddings": 66, "pad_token_id": 1}),
    "electra": (wordpiece, SMALL | {"max_position_embeddings": 64, "embedding_size": 32}),
    "distilbert": (wordpiece, {"n_layers": 2, "dim": 32, "n_heads": 4, "hidden_dim": 48,
                               "max_position_embeddings": 64}),
    "deberta": (byte_level, SMALL | {"max_position_embeddings": 64, "relative_attention": True,
                                     "pos_att_type": ["c2p", "p2c"], "position_biased_input": False}),
    "deberta-v2": (unigram, SMALL | {"max_position_embeddings": 64, "relative_attention": True,
                                     "pos_att_type": ["p2c", "c2p"], "position_buckets": 16, "share_att_key": True,
                                     "norm_rel_ebd": "layer_norm", "position_biased_input": False}),
}  # fmt: skip


@pytest.fixture(scope="module")
def written(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """``written(TYPE)``: a masked language model of that type with random weights, as transformers saves it."""
    text = [line for path in sorted(corpus.glob("*.txt")) for line in path.read_text().splitlines()] + list(
        LINES
    )

    def made(kind: str) -> Path:
        from transformers import AutoConfig, AutoModelForMaskedLM, PreTrainedTokenizerFast

        torch.manual_seed(1)
        folder = tmp_path_factory.getbasetemp() / f"written-{kind}"
        if folder.is_dir():
            return folder
        train, settings = KINDS[kind]
        tokenizer, names = train(text)
        fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)
        model = AutoModelForMaskedLM.from_config(AutoConfig.for_model(kind, vocab_size=len(fast), **settings))
        for name, parameter in model.named_parameters():  # biases and norms are not random by themselves
            if name.endswith("bias") or "norm" in name.lower():
                torch.nn.init.normal_(parameter, 0.5, 0.3)
        model.save_pretrained(folder)
        fast.save_pretrained(folder)
        return folder

    return made


@pytest.mark.parametrize("kind", KINDS)
def test_states_and_ids_are_those_of_transformers(
    written: Callable[[str], Path], tmp_path: Path, kind: str
) -> None:
    from transformers import AutoModel, AutoTokenizer

    folder = written(kind)
    run_hf(ImportConfig(folder, tmp_path / "in"))
    fast, theirs = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    processor = vocab.load(tmp_path / "in")
    for line in LINES:
        ours = [processor._order[n] for n in pieces(processor, line)]
        assert ours == fast(line, add_special_tokens=False)["input_ids"], line
    assert len(processor._order) == len(checkpoint.load_model(tmp_path / "in")[0].encoder.tokens.weight)
    backend = EncoderBackend(tmp_path / "in", "pretrained")
    for layer in (1, -1):
        mine = backend.embed(LINES, "en", layer, "mean")
        for row, line in enumerate(LINES):
            ids = [
                processor._order[0],
                *fast(line, add_special_tokens=False)["input_ids"],
                processor._order[2],
            ]
            with torch.inference_mode():
                states = theirs(torch.tensor([ids]), output_hidden_states=True).hidden_states[layer][0, 1:-1]
            assert np.abs(mine[row] - states.mean(0).numpy()).max() <= 1e-5, (kind, line)


@pytest.mark.parametrize("kind", ["roberta", "deberta-v2"])
def test_scores_of_fine_tuning_are_those_of_plain_transformers(
    written: Callable[[str], Path], tmp_path: Path, kind: str
) -> None:
    """The same head, rows and updates with transformers' own model, tokens and masks."""
    from transformers import AutoModel

    from tests.hub.conftest import LABELS, ROWS

    folder = written(kind)
    run_hf(ImportConfig(folder, tmp_path / "in"))
    cfg = TuneConfig(epochs=3, lr=1e-3, batch_rows=2, max_length=48, precision="fp32", dropout=0.0)
    tuned = tune.fit(tmp_path / "in", "classify", LABELS, ROWS["classify"], cfg)[-1]  # type: ignore[arg-type]
    tune.save(tuned, tmp_path, tmp_path / "in", [])
    again = tune.load(tmp_path)
    rows = ROWS["classify"]
    assert again.predict(rows) == tuned.predict(rows)
    theirs = AutoModel.from_pretrained(folder).eval()
    state = {
        n.removeprefix("body."): t
        for n, t in again.model.encoder.state_dict().items()
        if n.startswith("body.")
    }
    order = again.processor._order
    name = next(n for n in state if n.endswith("word_embeddings.weight"))
    table = theirs.get_input_embeddings().weight.detach().clone()
    table[order] = state[name]
    theirs.load_state_dict(state | {name: table})
    head = again.model
    assert head.dense is not None
    for row, (_, example) in zip(rows, again.encode(rows), strict=True):
        ids = torch.tensor([[order[n] for n in example["tokens"]]])
        with torch.inference_mode():
            state_0 = theirs(ids, attention_mask=torch.ones_like(ids)).last_hidden_state[:, 0]
            wanted = head.classifier(torch.tanh(head.dense(state_0)))
            from xling.data.packing import pack

            found = head(pack([example | {"id": np.array([0])}]))
        assert float((found - wanted).abs().max()) <= 1e-5, row


def test_a_checkpoint_may_be_named_hf(
    written: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from xling.eval.settings import EvalConfig

    monkeypatch.setenv("XLING_CACHE", str(tmp_path / "cache"))
    cfg = EvalConfig(suites=("x",), out=tmp_path / "run", checkpoint=Path(f"hf:{written('roberta')}"))
    found = inputs.brought_here("checkpoint translator", cfg, load)
    assert found.checkpoint is not None and (found.checkpoint / "model.pt").is_file()
    assert "is imported into" in capsys.readouterr().err
    assert inputs.brought_here("checkpoint translator", cfg, load) == found
    assert capsys.readouterr().err == ""


def test_what_it_cannot_do_is_refused(written: Callable[[str], Path], tmp_path: Path) -> None:
    run_hf(ImportConfig(written("roberta"), tmp_path / "in"))
    with pytest.raises(UserError, match=r"fit.layer_decay=0.5 with .* which is computed by transformers"):
        tune.fit(tmp_path / "in", "classify", ("a", "b"), [], TuneConfig(layer_decay=0.5))
    with pytest.raises(UserError, match="has the tokenizer of another model"):
        export_hf(ExportConfig(tmp_path / "in", tmp_path / "out"))
    with pytest.raises(UserError, match="an encoder computed by transformers"):
        checkpoint.has_decoder(tmp_path / "in")

"""Encoders of ours with a tokenizer that was kept as it is: added tokens are read, and exports have its ids."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import AddedToken

from tests.hub.conftest import ROWS, tuned_from
from tests.hub.differences import largest
from tests.hub.test_transformers_wrapper import LINES, SMALL, byte_level, unigram, wordpiece
from xling.core.errors import UserError
from xling.hub.checks import check_trim
from xling.hub.export import run_fairseq
from xling.hub.export import run_hf as export_hf
from xling.hub.imports import run_hf
from xling.hub.settings import ExportConfig, ImportConfig, TrimConfig
from xling.transfer.backend import EncoderBackend

LAYERS = {"max_position_embeddings": 64, "num_hidden_layers": 3, "local_attention": 8}
ADDED = ("boat", "@user", "[ent]")
TEXTS = (*LINES, "a red boat of @user [ent] here")
MODELS: dict[str, tuple[str, Callable[[list[str]], Any], dict[str, Any]]] = {
    "BERT with added tokens": ("bert", wordpiece, SMALL),
    "XLM-R with added tokens": ("xlm-roberta", byte_level, SMALL),
    "XLM-R that pads with 0": (
        "xlm-roberta",
        unigram,
        SMALL | {"layer_norm_eps": 1e-5, "type_vocab_size": 1},
    ),
    "ModernBERT": ("modernbert", byte_level, SMALL | LAYERS),
}


def save(name: str, text: list[str], folder: Path) -> Any:
    """Write a masked language model with random weights, 5 rows of no token, and tokens added to its tokenizer."""
    from tokenizers.processors import TemplateProcessing
    from transformers import AutoConfig, AutoModelForMaskedLM, PreTrainedTokenizerFast

    torch.manual_seed(1)
    kind, train, settings = MODELS[name]
    made, names = train(text)
    begin, end = (
        names.get(a, names.get(b)) for a, b in (("cls_token", "bos_token"), ("sep_token", "eos_token"))
    )
    made.post_processor = TemplateProcessing(
        single=f"{begin} $A {end}", special_tokens=[(each, made.token_to_id(each)) for each in (begin, end)]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=made, **{"cls_token": begin, "sep_token": end} | names, model_max_length=60
    )
    fast.add_tokens([AddedToken(each, normalized=False) for each in ADDED])
    model = AutoModelForMaskedLM.from_config(
        AutoConfig.for_model(
            kind,
            **{"max_position_embeddings": 64} | settings,
            vocab_size=len(fast) + 5,
            pad_token_id=fast.pad_token_id,
        )
    ).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 0.1, 0.2)
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    return fast, model


@pytest.mark.parametrize("name", MODELS)
def test_exports_have_their_ids_and_logits(corpus: Path, tmp_path: Path, name: str) -> None:
    from sentence_transformers import SentenceTransformer
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    text = [line for path in sorted(corpus.glob("*.txt")) for line in path.read_text().splitlines()]
    fast, model = save(name, [*text, *LINES], tmp_path / "model")
    run_hf(ImportConfig(tmp_path / "model", tmp_path / "in"))
    export_hf(ExportConfig(tmp_path / "in", tmp_path / "out"))
    again, other = (
        AutoTokenizer.from_pretrained(tmp_path / "out"),
        AutoModelForMaskedLM.from_pretrained(tmp_path / "out"),
    )
    vectors = EncoderBackend(tmp_path / "in", "pretrained").embed(TEXTS, "en", -1, "mean")
    for line, vector in zip(TEXTS, vectors, strict=True):
        ids = fast(line, return_tensors="pt", truncation=True)["input_ids"]
        assert again(line, return_tensors="pt", truncation=True)["input_ids"].tolist() == ids.tolist(), line
        with torch.inference_mode():
            wanted = model(ids, output_hidden_states=True)
            found = other.eval()(ids).logits
            states = model.base_model(ids).last_hidden_state[0, 1:-1]
        assert largest(vector, states.mean(0)) < 1e-5, line
        assert largest(found[..., : len(fast)], wanted.logits[..., : len(fast)]) < 1e-5, line
    assert {*ADDED} <= {*again.get_added_vocab()} and {*ADDED} <= {*fast.tokenize(TEXTS[-1])}
    encoder = SentenceTransformer(str(tmp_path / "out"), device="cpu")
    assert largest(encoder.encode(list(TEXTS)), vectors) < 1e-5
    run_hf(ImportConfig(tmp_path / "out", tmp_path / "back"))
    back = EncoderBackend(tmp_path / "back", "pretrained").embed(TEXTS, "en", 1, "mean")
    assert np.array_equal(back, EncoderBackend(tmp_path / "in", "pretrained").embed(TEXTS, "en", 1, "mean"))
    cfg = TrimConfig(tmp_path / "in", tmp_path / "small", corpora={"en": (str(next(corpus.glob("*.txt"))),)})
    with pytest.raises(
        UserError, match="has the tokenizer of another model; valid: a SentencePiece vocabulary"
    ):
        check_trim(cfg)
    said = (
        "has the tokenizer of another model"
        if name == "XLM-R that pads with 0"
        else "fairseq's classes cannot"
    )
    with pytest.raises(UserError, match=said):
        run_fairseq(ExportConfig(tmp_path / "in", tmp_path / "fairseq"))


def test_a_fine_tuned_one_gives_our_scores(corpus: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    text = [line for path in sorted(corpus.glob("*.txt")) for line in path.read_text().splitlines()]
    save("BERT with added tokens", [*text, *LINES], tmp_path / "model")
    run_hf(ImportConfig(tmp_path / "model", tmp_path / "in"))
    tuned = tuned_from(tmp_path / "in", tmp_path / "task", "pair")
    export_hf(ExportConfig(tmp_path / "task", tmp_path / "out"))
    fast, theirs = (
        each.from_pretrained(tmp_path / "out") for each in (AutoTokenizer, AutoModelForSequenceClassification)
    )
    for row, windows in zip(ROWS["pair"], tuned.scores(ROWS["pair"]), strict=True):
        with torch.inference_mode():
            given = fast(row.fields["text_a"], row.fields["text_b"], return_tensors="pt")
            assert largest(theirs.eval()(**given).logits, windows[0][1]) < 1e-5

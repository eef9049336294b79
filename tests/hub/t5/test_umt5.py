"""umT5 and ByT5 as transformers writes them: the same ids, logits and outputs."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from torch import nn

from tests.hub.differences import largest
from tests.hub.test_bart import ODD, logits
from tests.hub.test_mbart import shake
from xling.hub import t5
from xling.hub.imports import ImportConfig
from xling.hub.imports import run_hf as import_hf
from xling.models.files import model_weights
from xling.models.generate.decode import generate_all
from xling.models.generate.settings import Search
from xling.text import vocab as vocabulary
from xling.transfer.encode import encode_pieces


def t5_like(kind: str, size: int) -> nn.Module:
    """A umT5, or an mT5 with ByT5's number of ids."""
    name = "UMT5" if kind == "umt5" else "MT5"
    config = getattr(transformers, f"{name}Config")(
        vocab_size=size, d_model=32, d_kv=10, d_ff=48, num_layers=2, num_decoder_layers=2, num_heads=4,
        decoder_start_token_id=0, model_type=name.lower(),
    )  # fmt: skip
    model = getattr(transformers, f"{name}ForConditionalGeneration")(config)
    shake(model)
    if kind == "umt5":
        with torch.no_grad():  # its outputs are divided by the root of the width
            model.decoder.final_layer_norm.weight.mul_(5)
    return model


@pytest.mark.parametrize("kind", ["umt5", "byt5"])
def test_umt5_and_byt5(spiece: Callable[[str], Path], tmp_path: Path, kind: str) -> None:
    folder = tmp_path / kind
    folder.mkdir()
    size = 384 if kind == "byt5" else 512
    model = t5_like(kind, size)
    model.save_pretrained(folder)
    if kind == "byt5":
        slow = transformers.ByT5Tokenizer()
        slow.save_pretrained(folder)
    else:
        shutil.copy(spiece("mt5"), folder / "spiece.model")
    import_hf(ImportConfig(folder, tmp_path / "in", ("en", "sw")))
    ours, symbols = model_weights.load_seq2seq(tmp_path / "in")
    assert ours.cfg.layer_biases == (kind == "umt5")
    order = t5.read_id_mapping(folder, size, ("en", "sw")).order
    processor = vocabulary.load_processor(tmp_path / "in")
    if kind == "byt5":
        for line in ODD:
            assert [*order[encode_pieces(processor, line)].tolist(), 1] == slow(line)["input_ids"], line
            assert processor.decode(processor.encode(line)) == line
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    for source, target in (
        ([5, 77, 9, 30, 41], [8, 60, 4, 121]),
        ([6], []),
        ([*range(4, 204)], [*range(9, 60)]),
    ):
        with torch.inference_mode():
            wanted = theirs(
                torch.tensor([[*order[source].tolist(), 1]]),
                decoder_input_ids=torch.tensor([[0, *order[target].tolist()]]),
            ).logits[0]
        mine = logits(tmp_path / "in", source, target, 0, 1)
        assert mine.abs().max() > 1
        assert largest(wanted[:, order], mine) < 1e-5
    sources = [np.array(row) for row in ([5, 77, 9], [8])]
    written = generate_all(
        ours, sources, [0] * 2, [1] * 2, symbols, Search(beam=1, max_len_a=0, max_len_b=19)
    )
    barred = sorted({*range(size)} - {int(n) for n in order[4 : symbols.mask]} - {1})
    for row, hypotheses in zip(sources, written, strict=True):
        with torch.inference_mode():
            found = theirs.generate(
                torch.tensor([[*order[row].tolist(), 1]]),
                max_new_tokens=20,
                min_new_tokens=1,
                suppress_tokens=barred,
            )
        best = order[hypotheses[0].tokens].tolist()
        assert [t for t in found[0].tolist()[1:] if t not in (0, 1)][:19] == best

"""Exported translation models, converted by CTranslate2's own converter, write what ours write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.hub.test_mbart import LANGS, LINES, publish
from xling.hub.export import run_hf
from xling.hub.settings import ExportConfig
from xling.models.files import model_weights
from xling.models.generate.decode import generate_all
from xling.models.generate.settings import Search
from xling.text import vocab as vocabulary
from xling.transfer.encode import encode_pieces

SHAPES: dict[str, dict[str, Any]] = {
    "mbart": {"scale_embeddings": True},
    "mbart50": {"scale_embeddings": True, "lang_first": True},
    "m2m_100": {
        "positions": "sinusoidal", "embedding_norm": False, "ffn": "relu", "unbiased_head": True, "lang_first": True,
        "scale_embeddings": True,
    },
}  # fmt: skip
LENGTH = 30


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of swig, under ctranslate2
@pytest.mark.parametrize("kind", SHAPES)
def test_a_converted_model_writes_what_ours_writes(vocab: Path, tmp_path: Path, kind: str) -> None:
    import ctranslate2
    from transformers import AutoTokenizer, GenerationConfig

    folder = publish(tmp_path / "m", vocab, **SHAPES[kind])
    run_hf(ExportConfig(folder, tmp_path / "hf"))
    ctranslate2.converters.TransformersConverter(str(tmp_path / "hf")).convert(str(tmp_path / "ct2"))
    translator = ctranslate2.Translator(str(tmp_path / "ct2"), device="cpu", intra_threads=1)
    fast, settings = (c.from_pretrained(tmp_path / "hf") for c in (AutoTokenizer, GenerationConfig))
    sources = [
        fast.convert_ids_to_tokens(ids) for ids in fast(list(LINES), ["[en]"] * len(LINES))["input_ids"]
    ]
    model, symbols = model_weights.load_seq2seq(folder)
    never = {*settings.suppress_tokens, *(symbols.lang(i) for i in range(len(LANGS)))}
    barred = [[name] for name in fast.convert_ids_to_tokens(sorted(never))]
    parts = [np.array(encode_pieces(vocabulary.load_processor(folder), line)) for line in LINES]
    search = Search(beam=1, max_len_a=0, max_len_b=LENGTH)
    different = set()
    for lang, code in enumerate(LANGS):
        result = translator.translate_batch(
            sources,
            target_prefix=[[f"[{code}]"]] * len(sources),
            beam_size=1,
            max_decoding_length=LENGTH,
            suppress_sequences=barred,
        )
        src = [LANGS.index("en")] * len(parts)
        ours = generate_all(model, parts, src, [lang] * len(parts), symbols, search)
        for theirs, (mine, *_) in zip(result, ours, strict=True):
            names = fast.convert_ids_to_tokens(mine.tokens.tolist())
            (made,) = theirs.hypotheses
            made = [name for name in made if name != f"[{code}]"]
            length = LENGTH - 2  # one of them counts the language, and the other the end
            assert made[:length] == names[:length]
            different.add(tuple(names))
    assert len(different) > 3  # random weights: the comparison above counts

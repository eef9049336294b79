"""What transformers generates from an exported model, beside our own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from xling.models.files import model_weights
from xling.models.generate.decode import generate_all
from xling.models.generate.settings import Search
from xling.text import vocab
from xling.transfer.encode import encode_pieces


def compare(published: Path, exported: Path, lines: Sequence[str], beam: int, tag: str = "") -> None:
    """Asserts that both write the same for every line in every language.

    Args:
        published: our model.
        exported: the same as transformers reads it.
        tag: token of the lines' language, where the model reads one.
    """
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    theirs, fast = (c.from_pretrained(exported) for c in (AutoModelForSeq2SeqLM, AutoTokenizer))
    model, symbols = model_weights.load_seq2seq(published)
    sources = [np.array(encode_pieces(vocab.load_processor(published), line)) for line in lines]
    search = Search(beam=beam, max_len_a=0, max_len_b=50)
    tags = [[tag] * len(lines)] if tag else []
    given = fast(list(lines), *tags, padding=True, return_tensors="pt")
    compared = []
    for lang, code in enumerate(symbols.langs):
        mine = generate_all(model, sources, [1] * len(lines), [lang] * len(lines), symbols, search)
        wanted = theirs.generation_config.lang_to_id[f"[{code}]"]
        assert wanted == fast.convert_tokens_to_ids(f"[{code}]") == symbols.lang(lang)
        settings = {"num_beams": beam, "max_new_tokens": 51, "decoder_start_token_id": wanted}
        if symbols.lang_first:  # languages must stay allowed where one is forced, so they are barred here
            assert theirs.generation_config.decoder_start_token_id == 2
            barred = {symbols.lang(i) for i in range(len(symbols.langs))}
            assert not barred & set(theirs.generation_config.suppress_tokens)
            settings |= {"suppress_tokens": [*theirs.generation_config.suppress_tokens, *sorted(barred)]}
            settings |= {
                "decoder_input_ids": torch.tensor([[2, wanted]] * len(lines)),
                "forced_bos_token_id": None,
            }
            del settings["decoder_start_token_id"]
        with torch.inference_mode():
            found = theirs.eval().generate(**given, **settings)
        for row, hypotheses in zip(found.tolist(), mine, strict=True):
            # At the limit transformers counts the forced </s> as certain, and we do not.
            if beam == 1 or all(len(h.tokens) < 50 for h in hypotheses):
                compared.append(
                    tuple(token for token in row[1 + symbols.lang_first :] if token not in (1, 2))
                )
                assert compared[-1] == tuple(hypotheses[0].tokens.tolist())
    assert len(compared) > 5 and len(set(compared)) > 3, compared

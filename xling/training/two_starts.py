"""A model with a decoder from two others: ``encoder=DIR decoder=DIR``, two encoders or models with a decoder.

The decoder takes layers, positions and head of its model. Its cross-attention is new, or with ``cross=self`` the
self-attention of the same layer of the encoder. Over another vocabulary than the new model's, equal pieces keep their
rows and other ones get the mean of the old pieces that spell them (`xling.static.new_rows`, ``fvt``).

Sources: Ramachandran et al. 2017, section 2.1; Conneau & Lample 2019, section 5.2. Both leave cross-attention new.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from xling.array_types import Float
from xling.core.output.command_result import tell
from xling.models.files import model_weights
from xling.models.network.encoder import LMHead
from xling.models.network.seq2seq import Decoder, Seq2SeqModel
from xling.static import new_rows
from xling.text.files.shards import vocab_digest

OF_SIDES = ("positions", "langs", "norm", "final_norm")


def start(
    model: Seq2SeqModel, encoder: Path, decoder: Path, cross: str, langs: list[str], data: Path
) -> None:
    """Copy two published models into ``model``; its settings are checked by `xling.training.checks`.

    Args:
        model: the new model, over the vocabulary of ``data``.
        encoder: model whose encoder and embeddings are taken.
        decoder: model whose decoder is taken, or its encoder if it has none; its embeddings with
            ``model.decoder_embeddings``.
        cross: ``random`` or ``self``.
        langs: languages of ``model``.
        data: directory with the vocabulary of ``model``.

    Raises:
        UserError: one of the models does not exist, is damaged or has another shape.
    """
    fresh = {name: weight.clone() for name, weight in model.state_dict().items() if ".cross_" in name}
    own_table = getattr(model.decoder, "words", None)
    foreign = vocab_digest(encoder) != vocab_digest(data)
    model_weights.start_from(model, encoder, langs, data, foreign, encoder_only=True)
    if foreign:
        _rows(model.encoder.tokens.weight, _read(encoder)[0].tokens.weight, data, encoder, "embeddings")
    model.load_state_dict(fresh, strict=False)
    side, head = _read(decoder)
    with torch.no_grad():
        _copy_decoder(model, side, head)
        bias = model.decoder.head.bias
        if isinstance(bias, nn.Parameter):
            _rows(bias.data[:, None], head.bias.detach()[:, None], data, decoder, "", "overlap")
        if own_table is not None:
            _rows(own_table.weight, getattr(side, "words", side.tokens).weight, data, decoder, "embeddings")
        elif encoder.resolve() != decoder.resolve():
            tell(
                f"xling: one table of embeddings, that of {encoder}: those of {decoder} are left out; "
                "model.decoder_embeddings=true keeps both"
            )
        if model.decoder.cfg.untied_head:
            _rows(model.decoder.head.weight, head.weight, data, decoder, "output matrix")
        if cross == "self":
            _copy_attention(model)


def _read(directory: Path) -> tuple[Any, Any]:
    """Return the decoder and the head of a published model, or its encoder and LM head if it has no decoder.

    A decoder without embeddings of its own gets those of its encoder, as ``tokens``.
    """
    if not model_weights.has_decoder(directory):
        whole = model_weights.load_model(directory)[0]
        return whole.encoder, whole.lm_head
    both, _ = model_weights.load_seq2seq(directory)
    both.decoder.tokens = both.encoder.tokens
    return both.decoder, both.decoder.head


def _copy_decoder(model: Seq2SeqModel, side: Any, head: Any) -> None:
    """Copy all of a side of another model but rows of pieces and cross-attention."""
    decoder = model.decoder
    for name in (*OF_SIDES, *(["relative"] if isinstance(side, Decoder) else [])):
        if (mine := getattr(decoder, name)) is not None and (theirs := getattr(side, name)) is not None:
            mine.load_state_dict(theirs.state_dict())
    for mine, theirs in zip(decoder.layers, side.layers, strict=True):
        weights = {name: w for name, w in theirs.state_dict().items() if not name.startswith("cross_")}
        mine.load_state_dict(weights, strict=False)
    if isinstance(decoder.head, LMHead):
        weights = {k: w for k, w in head.state_dict().items() if k not in ("weight", "bias")}
        decoder.head.load_state_dict(weights, strict=False)


def _rows(
    table: Float[torch.Tensor, "new dim"],
    old_table: Float[torch.Tensor, "old dim"],
    data: Path,
    old: Path,
    what: str,
    how: str = "fvt",
) -> None:
    """Fill a table by piece from one of another vocabulary, or row by row from one of the same."""
    if vocab_digest(old) == vocab_digest(data):
        last = model_weights.mask_of(data) + 1
        table.data[:last] = old_table.detach()[:last].to(table.dtype)
        return
    counts = new_rows.start_rows(table, old_table.detach(), data, old, how)
    if what:
        tell(f"xling: {what} of {old}: {', '.join(f'{num:,} {name}' for name, num in counts.items())} rows")


def _copy_attention(model: Any) -> None:
    """Copy the self-attention of every encoder layer into the cross-attention of the decoder layer of its number."""
    for source, layer in zip(model.encoder.layers, model.decoder.layers, strict=False):
        inner = source.out.in_features
        for mine, theirs in ((layer.cross_query, slice(inner)), (layer.cross_kv, slice(inner, None))):
            mine.weight.copy_(source.qkv.weight[theirs])
            if mine.bias is not None:
                mine.bias.copy_(source.qkv.bias[theirs])
        layer.cross_out.load_state_dict(source.out.state_dict())
        if source.attn_norm.state_dict().keys() == layer.cross_norm.state_dict().keys():
            layer.cross_norm.load_state_dict(source.attn_norm.state_dict())

"""Export of an encoder to ONNX: ``xling export onnx``."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xling.core import manifest
from xling.core.errors import UserError
from xling.hub import tokenizer
from xling.hub.config import OnnxConfig
from xling.models import checkpoint, windows
from xling.models.encoder import Encoder, after_attention, projections, scaled
from xling.models.rope import dtype_of_angles, rotation
from xling.text import vocab

if TYPE_CHECKING:
    from jaxtyping import Float, Int

LARGE = 1_500_000_000  # bytes from which the weights go into a second file; ONNX allows 2 GB in one
INPUTS, OUTPUTS = ("input_ids", "attention_mask"), ("last_hidden_state", "sentence_embedding")
OPSET = 20


class DenseEncoder(nn.Module):
    """An encoder on padded batches, with the weights and the layers of ours.

    Args:
        encoder: the encoder, in float32.
        pooling: ``mean`` over the tokens without the first and the last, or ``cls``.
    """

    def __init__(self, encoder: Encoder, pooling: str) -> None:
        super().__init__()
        self.encoder, self.pooling = encoder, pooling

    def forward(
        self, input_ids: Int[Tensor, "batch time"], attention_mask: Int[Tensor, "batch time"]
    ) -> tuple[Float[Tensor, "batch time dim"], Float[Tensor, "batch dim"]]:
        """Return hidden states (B, T, D) and sentence vectors (B, D); the mask is 1 for tokens and 0 for padding."""
        encoder, (count, time) = self.encoder, input_ids.shape
        places = torch.arange(time, device=input_ids.device)
        flat = places.expand(count, time).reshape(-1)
        x = self._embedded(input_ids.reshape(-1), flat)
        far = torch.finfo(x.dtype).min
        hidden = (1 - attention_mask[:, None, None].to(x.dtype)) * far
        offsets = places[None] - places[:, None]
        biases: tuple[Tensor, ...] = ()
        if encoder.relative is not None:
            biases = encoder.relative.at(offsets).permute(2, 0, 1)[None].chunk(encoder.relative.layers, 1)
        width = encoder.cfg.head_dim or encoder.cfg.dim // encoder.cfg.heads
        for number, window in enumerate(windows.of(encoder.cfg.attention, encoder.cfg.layers)):
            mask = hidden
            if biases:
                mask = mask + biases[number % len(biases)]
            if window:
                mask = mask + (offsets.abs() > window).to(x.dtype) * far
            theta = encoder.cfg.local_theta if window else encoder.cfg.global_theta
            turn = None
            if encoder.cfg.positions == "rope":
                turn = rotation(flat, width, theta, dtype_of_angles(x))
            layer: Any = encoder.layers[number]
            query, key, value = (
                part.reshape(count, time, layer.heads, -1).transpose(1, 2)
                for part in projections(layer, x, turn).unbind(1)
            )
            attended = F.scaled_dot_product_attention(query, key, value, attn_mask=mask.clamp(min=far))
            x = after_attention(layer, x, attended.transpose(1, 2).reshape(count * time, -1))
        states = encoder.final_norm(x).reshape(count, time, -1)
        return states, self._pooled(states, attention_mask)

    def _embedded(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Return the input of the first layer, (N, D)."""
        encoder = self.encoder
        x = scaled(encoder.tokens(tokens), encoder.cfg)
        if encoder.positions is not None:
            x = x + encoder.positions(positions)
        if encoder.segments is not None:
            x = x + encoder.segments.weight[0]
        x = encoder.norm(x)
        return x if encoder.invertible is None else encoder.invertible(x)

    def _pooled(self, states: Tensor, seen: Tensor) -> Tensor:
        if self.pooling == "cls":
            return states[:, 0]
        lengths = seen.sum(1, keepdim=True)
        places = torch.arange(states.shape[1], device=states.device)[None]
        inner = (places > 0) & (places < lengths - 1)
        kept = (inner | ((lengths <= 2) & (places < lengths))).to(states.dtype)[..., None]
        return (states * kept).sum(1) / kept.sum(1)


def run(cfg: OnnxConfig) -> manifest.Manifest:
    """Export the encoder of a model to ``model.onnx``, with its fast tokenizer.

    Raises:
        UserError: there is no model, or it needs the language of a text or has parts that the export lacks;
            onnx or onnxscript is not installed.
    """
    if done := manifest.up_to_date(cfg.out, "export onnx", cfg, [cfg.checkpoint]):
        return done
    _require()
    if (cfg.checkpoint / vocab.FOREIGN).is_file():
        raise UserError(f"{cfg.checkpoint} is computed by transformers", "a model of ours", "export it there")
    model, _ = checkpoint.load_model(cfg.checkpoint)
    encoder = model.encoder.float().eval()
    if encoder.langs is not None or len(encoder.inputs):
        raise UserError(
            f"{cfg.checkpoint} reads the language of every token", "an encoder without language embeddings"
        )
    for name, parameter in encoder.named_parameters():
        parameter.requires_grad_(False)
        assert parameter.dtype == torch.float32, name
    fast = tokenizer.of_model(cfg.checkpoint, segments=model.cfg.segment_embeddings)
    with manifest.publish(cfg.out, "export onnx", cfg, [cfg.checkpoint]) as publication:
        write(DenseEncoder(encoder, cfg.pooling), publication.path / "model.onnx")
        tokenizer.save(fast, publication.path, model.cfg.max_positions, segments=model.cfg.segment_embeddings)
        publication.counts |= {
            "pooling": cfg.pooling,
            "parameters": sum(p.numel() for p in encoder.parameters()),
        }
    return manifest.read(cfg.out)


def write(model: DenseEncoder, path: Path) -> None:
    """Write the model for batches of any number and length."""
    ids = torch.tensor([[0, 5, 6, 2], [0, 5, 2, 1], [0, 2, 1, 1]])
    count, time = (
        torch.export.Dim(name, min=1, max=limit) for name, limit in (("batch", 65_536), ("time", 8_192))
    )
    size = sum(p.numel() * p.element_size() for p in model.parameters())
    with _quiet(), torch.inference_mode():
        torch.onnx.export(
            model,
            (ids, (ids != 1).long()),
            path,
            input_names=list(INPUTS),
            output_names=list(OUTPUTS),
            dynamic_shapes=[{0: count, 1: time}] * 2,
            opset_version=OPSET,
            dynamo=True,
            external_data=size > LARGE,
            verbose=False,
        )


def _require() -> None:
    """Refuse early where the packages of the export are missing."""
    try:
        import onnx
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise UserError(
            f"{error.name} is not installed, and `xling export onnx` needs it",
            fix="pip install 'xling[onnx]'",
        ) from None
    assert onnx


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence the notes of the exporter about its own workings."""
    level = logging.getLogger("torch.onnx").level
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.getLogger("torch.onnx").setLevel(level)

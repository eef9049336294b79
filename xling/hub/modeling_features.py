"""Classes with which transformers computes an exported encoder with ``model.features``.

An exported encoder carries a copy of this file (`xling.hub.features_export`), so it imports no other package of ours
than the files that are copied with it. Loading it runs this code: ``trust_remote_code=True``.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import (
    XLMRobertaConfig,
    XLMRobertaForMaskedLM,
    XLMRobertaForMultipleChoice,
    XLMRobertaForQuestionAnswering,
    XLMRobertaForSequenceClassification,
    XLMRobertaForTokenClassification,
    XLMRobertaModel,
    XLMRobertaPreTrainedModel,
)

from xling.array_types import Float, Int
from xling.static.known_words import KnownWords, mix_words
from xling.static.vectors import StaticEncoder


class FeaturesConfig(XLMRobertaConfig):
    """Shape of the encoder, and of the static encoder of its words.

    Args:
        static: settings of `xling pretrain static`, model.*.
        name_bytes: bytes of the spelling of a piece.
        int8: the table of the static encoder is in 8-bit integers, with a factor for each row.
        options: settings of XLM-R.
    """

    model_type = "xling_features"

    def __init__(
        self, static: dict[str, Any] | None = None, name_bytes: int = 48, int8: bool = False, **options: Any
    ) -> None:
        self.static, self.name_bytes, self.int8 = static or {}, name_bytes, int8
        super().__init__(**options)


class WordFeatures(nn.Embedding):
    """Embeddings of pieces, each mixed with the known words that are nearest to its word; (B, L) -> (B, L, D)."""

    def __init__(self, config: FeaturesConfig) -> None:
        super().__init__(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.shape: Any = SimpleNamespace(**config.static)
        dtype = torch.int8 if config.int8 else torch.float16
        table = torch.zeros(1 << self.shape.bits, self.shape.dim, dtype=dtype)
        self.register_buffer("names", torch.zeros(config.vocab_size, config.name_bytes, dtype=torch.uint8))
        self.register_buffer("is_known", torch.zeros(config.vocab_size, dtype=torch.bool))
        self.register_buffer("table", table)
        self.register_buffer("scale", torch.ones(len(table), 1))
        self._words: KnownWords | None = None

    @property
    def words(self) -> KnownWords:
        """The functions behind this class; they compute on the CPU."""
        if self._words is None:
            buffers = dict(self.named_buffers())
            table = buffers["table"].float().cpu() * buffers["scale"].float().cpu()
            encoder = StaticEncoder(self.shape, table, {})
            self._words = KnownWords(buffers["names"], buffers["is_known"], encoder)
        return self._words

    def forward(self, ids: Int[Tensor, " *places"]) -> Float[Tensor, " *places dim"]:
        """Look up the pieces and mix each with its word."""
        rows = F.embedding(ids.flatten(), self.weight, self.padding_idx)
        return mix_words(self.words, ids.flatten(), rows, self.weight).view(*ids.shape, -1)


class FeaturesModel(XLMRobertaModel):
    """The encoder without a head."""

    config_class = FeaturesConfig

    def __init__(self, config: FeaturesConfig, add_pooling_layer: bool = False) -> None:
        super().__init__(config, add_pooling_layer=add_pooling_layer)
        self.embeddings.word_embeddings = WordFeatures(config)


class WithFeatures(XLMRobertaPreTrainedModel):
    """A class of XLM-R with a head, whose encoder mixes words."""

    config_class = FeaturesConfig

    def __init__(self, config: FeaturesConfig) -> None:
        super().__init__(config)
        self.roberta.embeddings.word_embeddings = WordFeatures(config)
        self.tie_weights()


class FeaturesForMaskedLM(WithFeatures, XLMRobertaForMaskedLM):
    """The encoder with its LM head."""


class FeaturesForSequenceClassification(WithFeatures, XLMRobertaForSequenceClassification):
    """The encoder with a head for classes of texts and pairs."""


class FeaturesForTokenClassification(WithFeatures, XLMRobertaForTokenClassification):
    """The encoder with a head for tags of words."""


class FeaturesForQuestionAnswering(WithFeatures, XLMRobertaForQuestionAnswering):
    """The encoder with a head for spans."""


class FeaturesForMultipleChoice(WithFeatures, XLMRobertaForMultipleChoice):
    """The encoder with a head that chooses among texts."""

"""Classes with which transformers and sentence-transformers compute an exported static encoder.

An exported encoder carries a copy of this file (`xling.hub.static_export`), so it imports no other package of ours
than the files that are copied with it. Loading it runs this code: ``trust_remote_code=True``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel

from xling.array_types import Float
from xling.static.matching import match_all
from xling.static.vectors import StaticEncoder, unit_length
from xling.text.words.features import FEATURES_VERSION, READABLE_VERSIONS


class StaticEncoderConfig(PretrainedConfig):
    """Shape of a static encoder; the settings are those of `xling pretrain static`, model.*.

    Args:
        dim: size of the vectors.
        bits: the table has ``2 ** bits`` rows.
        smooth: a in the weight a / (a + share) of a word.
        sketch: size of the spelling sketch.
        sketch_weight: length of the sketch relative to the learned vector.
        features: version of the word features.
        num_frequent: words with a weight of their own.
        int8: the table is in 8-bit integers, with a factor for each row.
        options: settings of every model of transformers.

    Raises:
        ValueError: the code computes another version of the features than the weights were trained with.
    """

    model_type = "xling_static"

    def __init__(
        self,
        dim: int = 192,
        bits: int = 19,
        smooth: float = 5e-3,
        sketch: int = 384,
        sketch_weight: float = 0.4,
        features: int = FEATURES_VERSION,
        num_frequent: int = 0,
        int8: bool = False,
        **options: Any,
    ) -> None:
        if features not in READABLE_VERSIONS:
            raise ValueError(f"features={features}; this code computes versions {READABLE_VERSIONS}")
        self.dim, self.bits, self.smooth, self.features = dim, bits, smooth, features
        self.sketch, self.sketch_weight, self.num_frequent = sketch, sketch_weight, num_frequent
        self.int8 = int8
        super().__init__(**options)


class StaticEncoderModel(PreTrainedModel):
    """Static encoder for transformers; it is not trained further there.

    Args:
        config: its shape.
    """

    config_class = StaticEncoderConfig

    def __init__(self, config: StaticEncoderConfig) -> None:
        super().__init__(config)
        dtype = torch.int8 if config.int8 else torch.get_default_dtype()
        table = torch.empty(1 << config.bits, config.dim, dtype=dtype)
        self.table = nn.Parameter(table, requires_grad=False)
        if config.int8:
            self.scale = nn.Parameter(torch.ones(1 << config.bits), requires_grad=False)
        self.register_buffer("frequent", torch.zeros(config.num_frequent, dtype=torch.int64))
        self.register_buffer("share", torch.zeros(config.num_frequent))
        self.register_buffer("weight_direction", torch.zeros(config.dim))
        self._encoder: StaticEncoder | None = None
        self.post_init()

    @property
    def encoder(self) -> StaticEncoder:
        """The functions behind this class; they compute on the CPU."""
        if self._encoder is None:
            frequent: Any = self.frequent
            share: Any = self.share
            weight_direction: Any = self.weight_direction
            weights = dict(zip(frequent.tolist(), share.tolist(), strict=True))
            table = self.table.detach().float().cpu()
            if self.config.int8:
                scale = self.scale.detach().float().cpu()
                table *= scale[:, None]
            self._encoder = StaticEncoder(self.config, table, weights, weight_direction.float().cpu())
        return self._encoder

    def forward(self, texts: Sequence[str]) -> Float[Tensor, "texts dim_and_sketch"]:
        """Return vectors of texts, of length 1, float32 (num_texts, dim + sketch); zeros for an empty text."""
        with torch.inference_mode():
            return unit_length(self.encoder.sentence_vectors(texts)).to(self.table.device)

    def words(self, words: Sequence[str]) -> Float[Tensor, "words dim"]:
        """Return learned vectors of words, float32 (num_words, dim), not normalised."""
        with torch.inference_mode():
            return self.encoder.word_vectors(words).to(self.table.device)

    def matches(self, texts: Sequence[str], others: Sequence[str]) -> Float[Tensor, "texts others"]:
        """Return how well the words of each text match those of each other one, (num_texts, num_others).

        Each list is of one language: a word that is near all words of the other list counts less.
        """
        with torch.inference_mode():
            return match_all(self.encoder, texts, others).to(self.table.device)

    def _init_weights(self, module: nn.Module) -> None:
        """Leave the weights as they are: all of them come from a file."""


class StaticSentences(nn.Module):
    """The same encoder as the only module of a ``SentenceTransformer``.

    Args:
        model: the encoder.
    """

    save_in_root = True  # the code is looked for there

    def __init__(self, model: StaticEncoderModel) -> None:
        super().__init__()
        self.model = model

    @classmethod
    def load(cls, name: str, subfolder: str = "", cache_folder: str | None = None, **options: Any) -> Any:
        """Read a model from a directory or the Hugging Face Hub."""
        download_options = {key: options.get(key) for key in ("token", "revision", "local_files_only")}
        model = StaticEncoderModel.from_pretrained(
            name,
            subfolder=subfolder,
            cache_dir=cache_folder,
            **{k: v for k, v in download_options.items() if v},
        )
        return cls(model)

    def save(self, folder: str, *_: Any, **options: Any) -> None:
        """Write the model into a directory."""
        self.model.save_pretrained(folder)

    def preprocess(self, inputs: Sequence[str], prompt: str | None = None, **_: Any) -> dict[str, Any]:
        """Compute the vectors of texts here, since only tensors are moved between devices."""
        return {"sentence_embedding": self.model([(prompt or "") + text for text in inputs])}

    def tokenize(self, texts: Sequence[str]) -> dict[str, Any]:
        """Compute the vectors of texts, for versions of sentence-transformers before 6."""
        return self.preprocess(texts)

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        """Return what `preprocess` computed."""
        return features

    def get_embedding_dimension(self) -> int:
        """Return the size of the vectors."""
        return int(self.model.config.dim + self.model.config.sketch)

    def get_sentence_embedding_dimension(self) -> int:
        """Return the size of the vectors, for versions of sentence-transformers before 6."""
        return self.get_embedding_dimension()

"""How likely a masked language model finds a text: its pseudo-log-likelihood.

Source: Salazar et al. 2020, Masked language model scoring, equation 1: every sub-word is masked in turn, and the
logarithms of its probabilities given all the others are added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from xling.array_types import Float64
from xling.core.errors import UserError
from xling.core.progress import Progress
from xling.data.packing import pack, sequence
from xling.models.files import model_weights
from xling.text import vocab
from xling.transfer.encode import BOS, EOS, LabelledRow, encode_pieces
from xling.transfer.tune import batches_by_tokens

BATCH_TOKENS = 8192


class MaskedLM:
    """A published encoder with the LM head that it was pre-trained with.

    Args:
        ckpt: directory of `xling pretrain` or `xling import`.
        random_init: fresh weights: the control.

    Raises:
        UserError: the model has a decoder, is fine-tuned or has no LM head.
    """

    def __init__(self, ckpt: Path, random_init: bool = False) -> None:
        valid = "a pre-trained encoder with its LM head"
        torch.manual_seed(1)
        model, self.langs = model_weights.load_model(ckpt, random_init=random_init)
        if getattr(model, "lm_head", None) is None or model_weights.has_decoder(ckpt):
            raise UserError(
                f"{ckpt} can fill no masks: it has a decoder, or is an encoder that transformers computes",
                valid,
                "give one of ours, or an import of the type xlm-roberta, bert or modernbert",
            )
        if model.lm_head.is_untrained:
            raise UserError(
                f"{ckpt} can fill no masks: the model that it was imported from had no LM head",
                valid,
                "import a file with its LM head, as ...ForMaskedLM writes it, or train one: xling pretrain init=",
            )
        self.ckpt = ckpt
        self.model, self.processor = model.eval(), vocab.load_processor(ckpt)
        self.mask_id = model_weights.mask_of(ckpt)

    def lang_index(self, lang: str) -> int:
        """Return the index of a language, for models with language embeddings."""
        return model_weights.language_index(self.model, self.langs, lang, self.ckpt)

    def choose_likelier(self, rows: Sequence[LabelledRow], lang: str) -> list[int]:
        """Return 0 where the first of a row's two ``choices`` is likelier, else 1."""
        texts = [text for row in rows for text in row.fields["choices"]]
        scores = self.scores(texts, lang).reshape(-1, 2)
        return [int(first <= second) for first, second in scores.tolist()]

    def scores(self, texts: Sequence[str], lang: str) -> Float64[np.ndarray, " texts"]:
        """Return the pseudo-log-likelihood of every text, float64 (num_texts,), with the natural logarithm.

        Args:
            texts: any number; one that is too long for the model is cut.
            lang: language of the texts, for models with language embeddings.
        """
        lang_index = self.lang_index(lang)
        max_pieces = self.model.encoder.cfg.max_positions - 2
        sequences = [[BOS, *encode_pieces(self.processor, text)[:max_pieces], EOS] for text in texts]
        mask_places = [
            (i, place) for i, tokens in enumerate(sequences) for place in range(1, len(tokens) - 1)
        ]
        lengths = [len(sequences[i]) for i, _ in mask_places]
        scores = np.zeros(len(texts))
        with torch.inference_mode(), Progress(f"likelihood {lang}", len(mask_places), "masks") as progress:
            for batch in batches_by_tokens(lengths, BATCH_TOKENS):
                examples = []
                for number in batch:
                    i, place = mask_places[number]
                    tokens = np.array(sequences[i])
                    masked = {"chosen": np.array([place]), "target": tokens[[place]]}
                    tokens[place] = self.mask_id
                    examples.append(sequence(tokens, lang_index, id=np.array([number])) | masked)
                sample = pack(examples)
                hidden = self.model.encoder(**sample["net_input"])
                _, losses = self.model.lm_head.loss(hidden[sample["chosen"]], sample["target"])
                loss_of = dict(zip(sample["id"].tolist(), losses.tolist(), strict=True))
                for number in batch:
                    scores[mask_places[number][0]] -= loss_of[number]
                progress.update(len(batch))
        return scores

"""``xling swap``: give a fine-tuned model the vocabulary and embeddings of another language.

The last of the four steps of Artetxe et al. 2020, section 2: a body is pre-trained in L1; with the body frozen
(``freeze=body init=``), embeddings of L2 are learned over a vocabulary of its own; the body is fine-tuned in L1 with
its embeddings frozen (``freeze_embeddings``); and here the L2 embeddings take their place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from torch import nn

from corpora import vocab
from xling.core import manifest
from xling.core.errors import UserError
from xling.models import checkpoint
from xling.transfer import tune

STAGE = "swap"


@dataclass(frozen=True)
class SwapConfig:
    """Settings of `run`.

    Attributes:
        task: directory of `xling finetune`.
        embeddings: directory of `xling pretrain`, whose embeddings and vocabulary are taken.
        out: directory to publish; `xling eval` scores it as it scores ``task``.
    """

    task: str
    embeddings: str
    out: str


def run(cfg: SwapConfig) -> manifest.Manifest:
    """Swap and publish.

    Raises:
        UserError: a model is missing, their widths differ, or they have language embeddings, which would not fit.
    """
    task, source, out = Path(cfg.task), Path(cfg.embeddings), Path(cfg.out)
    if done := manifest.up_to_date(out, STAGE, cfg, [task, source]):
        return done
    tuned = tune.load(task)
    other, langs = checkpoint.load_model(source)
    encoder, weight = tuned.model.encoder, other.encoder.tokens.weight.detach()
    if weight.shape[1] != encoder.cfg.dim:
        raise UserError(
            f"{source} has embeddings of {weight.shape[1]} numbers", f"{encoder.cfg.dim} as in {task}"
        )
    if encoder.langs is not None:
        raise UserError(f"{task} has language embeddings", "a model without model.lang_embeddings")
    encoder.tokens = nn.Embedding.from_pretrained(weight.clone(), padding_idx=encoder.tokens.padding_idx)
    swapped = replace(tuned, processor=vocab.load(source), lang=0)
    with manifest.publish(out, STAGE, cfg, [task, source]) as made:
        tune.save(swapped, made.path, source, langs)
        made.counts |= {"langs": langs, "vocabulary": len(weight)}
    return manifest.read(out)

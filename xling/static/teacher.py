"""Vectors of a teacher, of one text of every aligned row: computed once, kept in half precision, and reduced.

The student learns the teacher's vector from every side of the row, so languages that the teacher never saw get its
meanings too. The vectors lie beside the aligned text, in parts: a killed run goes on with the missing ones.

Sources: Reimers and Gurevych 2020, Making monolingual sentence embeddings multilingual using knowledge distillation;
reduction of the vectors first: model2vec and tokenlearn (Minish Lab).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from xling.array_types import Float16, Float32, Int64
from xling.core.errors import UserError
from xling.core.output import manifest, sealed
from xling.core.progress import Progress
from xling.core.sampling import rng
from xling.static.settings import TeacherConfig
from xling.text.encoders import Encoder, open_encoder
from xling.text.files.nway import kept_texts

TEXTS_PER_PART, TEXTS_PER_CALL = 4096, 256
PCA_TEXTS = 50_000
"""Texts from which the directions of the reduction are computed."""


class TeacherVectors:
    """The vector of every row that has a text in a language of the teacher.

    Args:
        data: output of ``xling corpus nway`` with ``keep_texts``.
        dim: size of the student's vectors, to which the teacher's are reduced.
    """

    def __init__(self, cfg: TeacherConfig, data: Path, dim: int) -> None:
        texts_of_sets = kept_texts(data, cfg.langs)
        texts = [text for each in texts_of_sets for text in each]
        different = list(dict.fromkeys(text for text in texts if text))
        if not different:
            raise UserError(
                f"data={data} keeps no text in {', '.join(cfg.langs)} for the teacher",
                f"an output of xling corpus nway keep_texts={','.join(cfg.langs)}",
                "run it again with another out=",
            )
        if 0 < cfg.max_texts < len(different):
            drawn = rng("teacher texts").permutation(len(different))[: cfg.max_texts]
            different = [different[number] for number in sorted(drawn.tolist())]
        unique = {text: number for number, text in enumerate(different)}
        sizes = [len(each) for each in texts_of_sets]
        self._first_row = np.cumsum([0, *sizes[:-1]])
        self._index = np.array([unique.get(text, -1) for text in texts])
        self._vectors = reduce_vectors(compute_vectors(cfg, data, different), dim)
        self.counts = {"teacher_texts": len(unique), "teacher_dim": self._vectors.shape[1]}

    def of_rows(
        self, sets: Int64[np.ndarray, " rows"], rows: Int64[np.ndarray, " rows"]
    ) -> tuple[Int64[Tensor, " known"], Float32[Tensor, "known dim"]]:
        """Return which of some rows have a vector, (num_known,), and the vectors of these, (num_known, dim)."""
        index = self._index[self._first_row[sets] + rows]
        known = np.flatnonzero(index >= 0)
        return torch.from_numpy(known), self._vectors[torch.from_numpy(index[known])].float()


def compute_vectors(cfg: TeacherConfig, data: Path, texts: Sequence[str]) -> Float32[Tensor, "texts dim"]:
    """Return the teacher's vectors of texts, of length 1, from the files beside ``data`` where they are there.

    Raises:
        UserError: no such encoder, or it returns something else than one finite vector a text.
    """
    state = "".join(map(manifest.content_digest, teacher_files(cfg)))
    key = hashlib.sha256(repr((cfg.encoder, state, cfg.langs, cfg.max_texts, manifest.digest(data))).encode())
    folder = data.with_name(f".{data.name}.teacher-{key.hexdigest()[:16]}")
    folder.mkdir(parents=True, exist_ok=True)
    encoder: Encoder | None = None
    parts = []
    with Progress("teacher vectors", len(texts), "texts") as progress:
        for start in range(0, len(texts), TEXTS_PER_PART):
            part_texts = texts[start : start + TEXTS_PER_PART]
            path = folder / f"{start // TEXTS_PER_PART}.npy"
            if not sealed.is_good(path):
                encoder = encoder or open_encoder(cfg.encoder)
                vectors = _embed(encoder, cfg, part_texts).astype(np.float16)
                with sealed.writing(path) as file:
                    np.save(file, vectors)
            parts.append(torch.from_numpy(np.load(path)).float())
            progress.update(len(part_texts))
    return F.normalize(torch.cat(parts), dim=1)


def teacher_files(cfg: TeacherConfig) -> list[Path]:
    """Return the folder of a teacher, or nothing if its name is all that is known of it."""
    folder = Path(cfg.encoder.partition(":")[2] or cfg.encoder)
    return [folder] if cfg.encoder and folder.is_dir() else []


def _embed(encoder: Encoder, cfg: TeacherConfig, texts: Sequence[str]) -> np.ndarray:
    blocks = [
        np.asarray(encoder.embed(texts[start : start + TEXTS_PER_CALL], cfg.langs[0], -1, "mean"), np.float32)
        for start in range(0, len(texts), TEXTS_PER_CALL)
    ]
    vectors = np.concatenate(blocks)
    if vectors.ndim != 2 or len(vectors) != len(texts) or not np.isfinite(vectors).all():
        raise UserError(
            f"teacher.encoder={cfg.encoder} returned vectors of shape {vectors.shape} for {len(texts)} texts",
            "one vector of finite numbers for each text",
        )
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-9)


def reduce_vectors(vectors: Float32[Tensor, "texts dim"], dim: int) -> Float16[Tensor, "texts reduced_dim"]:
    """Return the first ``dim`` principal components of vectors without their mean, of length 1, in half precision."""
    mean = vectors.mean(0)
    sample = (vectors if len(vectors) <= PCA_TEXTS else vectors[:: len(vectors) // PCA_TEXTS + 1]) - mean
    _, directions = torch.linalg.eigh(sample.T.double() @ sample.double())
    width = min(dim, vectors.shape[1])
    return F.normalize((vectors - mean) @ directions.flip(1)[:, :width].float(), dim=1).half()


def imitation_loss(
    student: Float32[Tensor, "rows dim"],
    teacher: Float32[Tensor, "rows dim"],
    temperature: float,
    distance: float,
) -> Float32[Tensor, ""]:
    """Return how far the student's vectors are from the teacher's, by contrast and by distance.

    Args:
        student: (R, D), of length 1.
        teacher: (R, D), of length 1, turned to the student's space (`Trainer.fit_rotation`).
        temperature: divisor of the cosines of the contrast, in which each text has to find its row's vector.
        distance: weight of the mean squared distance.
    """
    scores = student @ teacher.T / temperature
    # Rows with the same text have the same vector: none of them is a wrong answer.
    is_same = (teacher @ teacher.T > 1 - 1e-3) & ~torch.eye(len(teacher), dtype=torch.bool)
    scores = scores.masked_fill(is_same, -torch.inf)
    contrast = F.cross_entropy(scores, torch.arange(len(teacher)))
    return contrast + distance * (student - teacher).pow(2).sum(1).mean()

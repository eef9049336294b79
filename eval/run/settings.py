"""Settings of ``xling eval``."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from xling.core.settings.values import Lang, LangOrPair
from xling.eval.kinds.nearest_neighbours import Distance
from xling.eval.rows.own_files import OwnFiles
from xling.eval.systems import FitConfig, SearchConfig
from xling.eval.tables.publish import TableConfig


@dataclass(frozen=True)
class EvalConfig(OwnFiles):
    """Settings of ``xling eval``.

    Args:
        suites: names of suites; or own files: ``tags``, ``classes``, ``pairs``, ``retrieval`` or ``mt``.
        out: folder of the run.
        data: folder of the suites' files; default: what XLING_DATA names.
        systems: names in `xling.eval.systems.BACKENDS`; the controls appear beside the others in every table.
        checkpoint: model for the systems that need one.
        checkpoints: several models instead, side by side in place of ``pretrained``: directories, which give
            their names, or NAME=DIRECTORY. The other systems use the first one.
        dictionary: output of ``xling corpus links``, or a folder of MUSE dictionaries ``LANG-SOURCE.txt``, for the
            system ``dictionary``.
        langs: languages to score; default: all that are available. A given one that is missing is an error.
        source: language of the training rows.
        train_split: split of the training rows; ``dev`` if there are no training rows. Then a tenth of it
            is held out for selection, and only languages with test rows are scored.
        train_with: further suites with the same labels, whose rows in the source language are trained on too:
            the training rows, or the dev rows if there are none.
        test_set: test set to score, if a suite has several (``xling eval list`` names them).
        train_rows: number of training rows, drawn once for all seeds and systems; 0 for all.
        protocol: name in `xling.eval.rows.protocols.PROTOCOLS`.
        shots: rows per class for few_shot.
        select: methods of choosing the checkpoint, side by side.
        seeds: seeds of fine-tuning, for systems that depend on one.
        fit: settings of fine-tuning.
        layer: hidden layer of sentence vectors; -1 is the last.
        pooling: pooling of sub-word vectors: mean, cls or max. A model of sentence-transformers makes the vectors of
            its last layer as it declares them instead of mean. With joined the vectors of the static encoder of
            model.features stand beside the mean.
        distance: cosine, margin or csls.
        centred: subtract the mean vector of each side first, which mostly encodes its language.
        match: weight of matched words, with which a static encoder ranks the nearest texts of a retrieval
            suite again; 0 compares vectors alone.
        precision: precision of the weights for sentence vectors: bf16 is twice as fast on a CPU that supports
            it.
        search: settings of translation and generation.
        translator: model of ``xling finetune mt`` for the protocols that translate.
        int8: encoders predict in 8-bit integers (`xling.models.network.int8`); fine-tuning is unchanged.
        table: settings of the tables.
        num_workers: processes that score files.
    """

    suites: tuple[str, ...]
    out: Path
    data: Path | None = None
    systems: tuple[str, ...] = ("pretrained", "random", "majority")
    checkpoint: Path | None = None
    checkpoints: tuple[str, ...] = ()
    dictionary: Path | None = None
    langs: tuple[LangOrPair, ...] = ()
    source: Lang = "en"
    train_split: Literal["train", "dev"] = "train"
    train_with: tuple[str, ...] = ()
    test_set: str = ""
    train_rows: int = 0
    protocol: str = "zero_shot"
    shots: int = 10
    select: tuple[str, ...] = ("source-dev",)
    seeds: tuple[int, ...] = (1, 2, 3)
    fit: FitConfig = field(default_factory=FitConfig)
    layer: int = -1
    pooling: Literal["mean", "cls", "max", "joined"] = "mean"
    distance: Distance = "cosine"
    centred: bool = False
    match: float = 0.0
    precision: Literal["auto", "fp32", "bf16"] = "fp32"
    search: SearchConfig = field(default_factory=SearchConfig)
    translator: Path | None = None
    int8: bool = False
    table: TableConfig = field(default_factory=TableConfig)
    num_workers: int = 1

"""Trained models in Python: sentence vectors, translation and scores.

Example::

    model = xling.load("runs/model")
    vectors = model.encode(["Habari ya asubuhi."], lang="sw")
    scores = model.evaluate("xnli", data="suites", langs=("en", "sw"))
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, overload

from xling.array_types import Float32
from xling.core import languages
from xling.core.commands import call, inputs, runner
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.settings.config import to_dict
from xling.core.settings.values import code_of
from xling.eval.rows import rows_in_memory

if TYPE_CHECKING:
    import datasets
    import numpy as np
    import polars

    from xling.eval.scores.score_file import Score

Table: TypeAlias = "datasets.Dataset | polars.DataFrame"
Rows: TypeAlias = "Table | Sequence[Mapping[str, Any]]"


@dataclass(frozen=True)
class Model:
    """A checkpoint with its vocabulary. Weights are read at the first use and kept.

    Attributes:
        path: folder of the checkpoint.
    """

    path: Path

    def encode(
        self, texts: Sequence[str] | Table, lang: str = "en", layer: int = -1, pooling: str = "mean"
    ) -> Float32[np.ndarray, "texts dim"]:
        """Compute one vector for each text.

        Args:
            texts: any number, or a table with a column ``text``. A text longer than the model's positions is cut.
            lang: language of the texts. Only models with language embeddings and static encoders use it.
            layer: hidden layer, -1 for the last, 0 for the input embeddings.
            pooling: ``mean`` or ``max`` over the sub-words, or ``cls``. A model of sentence-transformers makes the
                vectors of its last layer as it declares them instead of ``mean``. With ``joined`` the vectors of the
                static encoder of ``model.features`` stand beside the mean.

        Returns:
            float32 (num_texts, dim), in the order of the texts.

        Raises:
            UserError: an unknown language, layer or pooling.

        Example:
            >>> model.encode(["Habari ya asubuhi.", "Good morning."], lang="sw").shape
            (2, 32)
        """
        if rows_in_memory.is_table(texts):
            texts = [row["text"] for row in rows_in_memory.cells_of(texts, ("text",))]
        texts = rows_in_memory.texts_of(texts, "encode")
        vectors: Float32[np.ndarray, "texts dim"] = self._encoder.embed(
            texts, languages.get(code_of(lang)).code, layer, pooling
        )
        return vectors

    def translate(self, texts: Sequence[str], src: str, tgt: str, beam: int = 5, via: str = "") -> list[str]:
        """Translate texts with a model that has a decoder.

        Args:
            texts: any number; an empty text stays empty. Long texts are split at sentence ends.
            src: language of the texts.
            tgt: language to translate into.
            beam: hypotheses that are kept; 1 is greedy search.
            via: pivot language, empty for a direct translation.

        Returns:
            One text for each, in order.

        Raises:
            UserError: the model has no decoder, or was not trained on one of the languages.

        Example:
            >>> len(mt.translate(["Habari.", ""], src="en", tgt="ar", beam=1))
            2
        """
        texts = rows_in_memory.texts_of(texts, "translate")
        search = runner.load("xling.models.generate.settings:Search")(beam=beam)
        translator = self._translator
        translator.search = search
        translated: list[str] = translator(texts, code_of(src), code_of(tgt), via=code_of(via))
        return translated

    def evaluate(
        self,
        suites: str | Sequence[str] = (),
        data: Path | str | None = None,
        out: Path | str | None = None,
        rows: Rows | None = None,
        lang: str = "en",
        **settings: Any,
    ) -> list[Score]:
        """Score the model on evaluation suites, next to its controls.

        Args:
            suites: name of a suite or of a group of suites, or several names. Own labelled files stand in their place:
                ``tags=``, ``classes=`` and so on, with ``train=`` and ``test={"sw": ...}``.
            data: folder of the suites' files; the default is the folder that XLING_DATA names.
            out: folder for predictions, scores and tables. Without it they are deleted afterwards.
            rows: labelled rows to score in place of a suite: a ``datasets.Dataset``, a polars frame, or a list of
                mappings. Their columns are named as in own files, for example ``text`` and ``label``.
            lang: language of ``rows``.
            settings: further settings of ``xling eval``, for example ``langs=("en", "sw")`` or ``fit={"epochs": 3}``.

        Returns:
            Every score: each system on each language, with its interval and signature.

        Raises:
            UserError: an unknown suite or setting, or rows that are missing.

        Example:
            >>> rows = [{"text": "mechi kubwa", "label": "sport"}, {"text": "kura mpya", "label": "politics"}]
            >>> scores = tuned.evaluate(rows=rows, lang="sw", systems=["pretrained"])
            >>> scores[0].lang, scores[0].metric
            ('sw', 'accuracy')
        """
        names = (suites,) if isinstance(suites, str) else tuple(suites)
        with tempfile.TemporaryDirectory() as scratch:
            if rows is not None:
                file = Path(
                    scratch if out is None else f"{out}.rows",
                    f"{languages.get(code_of(lang)).code}.test.jsonl",
                )
                settings[rows_in_memory.write(rows, file)] = file
            folder = Path(out) if out is not None else Path(scratch) / "eval"
            given = {
                "suites": names,
                "out": folder,
                "data": data,
                "checkpoint": self.path,
                **to_dict(settings),
            }
            call.stage("eval", given)
            scores: list[Score] = runner.load("xling.eval.scores.score_file:read_scores")(
                folder / "tables" / "scores.json"
            )
        return scores

    def finetune(self, out: Path | str, rows: Rows | None = None, lang: str = "en", **settings: Any) -> Model:
        """Fine-tune the model on a suite, on own labelled files, or on rows, and return the result.

        Args:
            out: folder to publish.
            rows: labelled rows: a ``datasets.Dataset``, a polars frame, or a list of mappings. Their columns say what
                is learned: ``text`` and ``label``; ``text_a``, ``text_b`` and ``label``; or ``tokens`` and ``tags``.
                They are kept in the folder ``OUT.rows``.
            lang: language of ``rows``.
            settings: those of ``xling finetune``, for example ``tags="en.train.conll"`` or ``suite="xnli"``.

        Raises:
            UserError: an unknown setting, or rows that are missing.

        Example:
            >>> rows = [{"text": "a match", "label": "sport"}, {"text": "a vote", "label": "politics"}] * 4
            >>> topics = model.finetune("runs/topics", rows, fit={"epochs": 1})
            >>> topics.path.name
            'topics'
        """
        if rows is not None:
            file = Path(f"{out}.rows", f"{languages.get(code_of(lang)).code}.train.jsonl")
            settings[rows_in_memory.write(rows, file)] = file
        call.stage("finetune", {"checkpoint": self.path, "out": Path(out), **to_dict(settings)})
        return Model(Path(out))

    @overload
    def predict(self, texts: Sequence[Any], lang: str = "en") -> list[Any]: ...

    @overload
    def predict(self, texts: Table, lang: str = "en") -> Table: ...

    def predict(self, texts: Sequence[Any] | Table, lang: str = "en") -> list[Any] | Table:
        """Label texts with a fine-tuned model.

        Args:
            texts: texts; for pairs and spans tuples of two texts; for tags texts or lists of words. Or a
                ``datasets.Dataset`` or polars frame with such columns.
            lang: language of the texts.

        Returns:
            For each text its class or answer; for tags a list of (word, tag). Of a table the same table with one more
            column, ``prediction``; for tags it has a list of tags.

        Raises:
            UserError: the model is not fine-tuned, an unknown language, or an empty text.

        Example:
            >>> tuned.predict(["mechi kubwa"], lang="sw")[0] in ("sport", "politics")
            True
            >>> import polars
            >>> tuned.predict(polars.DataFrame({"text": ["mechi kubwa"]}), lang="sw").width
            2
        """
        labeller = self._labeller
        if rows_in_memory.is_table(texts):
            cells = rows_in_memory.cells_of(texts, labeller.columns)
            answers = labeller.answers([labeller.cells_of(row) for row in cells], lang)
            labels = [each["tags"] if "tags" in each else _answer_of(each) for each in answers]
            return rows_in_memory.with_column(texts, "prediction", labels)
        items = rows_in_memory.texts_of(texts, "predict", others=True)
        answers = labeller.answers([labeller.cells_of(item) for item in items], lang)
        return [_answer_of(answer) for answer in answers]

    @cached_property
    def _labeller(self) -> Any:
        return runner.load("xling.eval.run.predict:Labeller")(self.path)

    @cached_property
    def _encoder(self) -> Any:
        config = runner.load("xling.eval.run.settings:EvalConfig")
        cfg = config(suites=(), out=Path(), checkpoint=self.path)
        return runner.load("xling.transfer.backend:pretrained_system")(cfg)

    @cached_property
    def _translator(self) -> Any:
        search = runner.load("xling.models.generate.settings:Search")()
        return runner.load("xling.transfer.translation.translate:Translator")(self.path, search)


def _answer_of(answer: dict[str, Any]) -> Any:
    if "tags" in answer:
        tagged = list(zip(answer["tokens"], answer["tags"], strict=True))
        return (answer["intent"], tagged) if "intent" in answer else tagged
    return answer["answer"] if "answer" in answer else answer["label"]


def load(checkpoint: Path | str) -> Model:
    """Open a trained model.

    Args:
        checkpoint: folder of ``xling pretrain``, ``finetune`` or ``import``, or ``hf:NAME_OR_FOLDER`` for a model of
            Hugging Face, which is converted once into ``~/.cache/xling``.

    Raises:
        UserError: there is no checkpoint, its type is not supported, or it was changed since it was published.

    Example:
        >>> load("runs/model").encode(["Habari."], lang="sw").dtype
        dtype('float32')
    """
    if str(checkpoint).startswith(inputs.HUB_PREFIX):
        return Model(Path(runner.load(inputs.HUB_IMPORTER)(str(checkpoint))))
    path = Path(checkpoint)
    if not path.is_dir():
        raise UserError(
            f"checkpoint {path}: there is no such folder",
            fix="check the path, or train a model: xling pretrain",
        )
    manifest.check_as_published(path)
    return Model(path)

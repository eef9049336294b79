"""Labels for texts without any: ``xling predict MODEL FILE``, and `predict` of a model in Python.

The model is one of ``xling finetune``. Its task says which columns a file needs: a text for classes, two for pairs,
words or running text for tags, passage and question for spans. Labels are those of the training rows, as written.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from xling.core import languages
from xling.core.commands.inputs import check_new_file
from xling.core.errors import UserError
from xling.core.output.command_result import Answer, JsonLines, as_json, tell
from xling.core.output.manifest import write_atomic
from xling.core.progress import Progress
from xling.core.settings.values import Lang, code_of
from xling.eval.kinds.base import KINDS, Example, Kind
from xling.eval.rows import own_formats
from xling.eval.rows.own_columns import LABEL, TAG, Reading, guessed_columns
from xling.eval.rows.own_spans import words_of
from xling.eval.rows.tag_schemes import written_with
from xling.eval.rows.wikiann import without_marks
from xling.models.files import model_folder
from xling.pages.tabular import Table, to_csv


@dataclass(frozen=True)
class PredictConfig:
    """Settings of ``xling predict``.

    Attributes:
        checkpoint: model of ``xling finetune``.
        head: the head of a model that was fine-tuned on several suites, by the name of the suite.
        file: texts: a text a line, a table, JSON lines, or a word a line for tags.
        lang: language of the texts.
        out: file of JSON lines to write, or of CSV where it ends in ``.csv``; default: standard output. An existing
            one is not replaced.
        columns: columns of the file, as ``columns.text=tweet`` or ``columns.text=2``.
        header: whether the first line of a table names its columns; auto finds out.
    """

    checkpoint: Path
    file: Path
    lang: Lang = "en"
    head: str = ""
    out: Path | None = None
    columns: dict[str, str] = field(default_factory=dict)
    header: Literal["auto", "true", "false"] = "auto"


def check(cfg: PredictConfig) -> None:
    """Check that the model is fine-tuned, the language known and the output new, without torch.

    Raises:
        UserError: one of them is not.
    """
    if cfg.out:
        check_new_file(cfg.out)
        if cfg.out.suffix.lower() in (".tsv", ".xlsx", ".ods", ".parquet"):
            raise UserError(f"out={cfg.out}", "JSON lines or CSV", f"out={cfg.out.with_suffix('.csv')}")
    languages.get(cfg.lang)
    check_is_tuned(cfg.checkpoint)
    content = model_folder.facts(cfg.checkpoint / model_folder.TASK_FILE)
    if content or cfg.head:
        model_folder.choose_head(content, cfg.checkpoint, cfg.head)


def check_is_tuned(checkpoint: Path) -> None:
    """Raise UserError for a model that ``xling finetune`` has not made."""
    if not model_folder.has_head(checkpoint):
        raise UserError(
            f"{checkpoint} is not fine-tuned and has no labels to give",
            "a model of xling finetune",
            f"xling finetune classes=FILES checkpoint={checkpoint} out=DIR",
        )


def run(cfg: PredictConfig) -> Answer | JsonLines:
    """Label every row of the file; print or write one JSON object a row.

    Raises:
        UserError: a column is missing or a row damaged; the model is not fine-tuned.
    """
    check(cfg)
    labeller = Labeller(cfg.checkpoint, cfg.head)
    unknown_columns = [column for column in cfg.columns if column not in labeller.columns]
    if unknown_columns:
        raise UserError(f"columns.{unknown_columns[0]}", ", ".join(f"columns.{c}" for c in labeller.columns))
    header = {"auto": None, "true": True, "false": False}[cfg.header]
    table = own_formats.read_table([cfg.file], Reading(labeller.columns, cfg.columns, header))
    read_as = f"{languages.get(cfg.lang).name} (lang={cfg.lang})"
    tell(f"{cfg.file}: {len(table.rows)} rows, read as {read_as}; {table.facts}")
    cells = [_with_words(row.cells) for row in table.rows]
    if "token" in labeller.columns:
        sentences = without_marks([row["token"] for row in cells], cfg.file)
        cells = [{**row, "token": words} for row, words in zip(cells, sentences, strict=True)]
    answers = labeller.answers(cells, cfg.lang)
    records = [{"line": row.lines[0], **answer} for row, answer in zip(table.rows, answers, strict=True)]
    if cfg.out is None:
        return JsonLines(tuple(records[0]), [tuple(record.values()) for record in records])
    cfg.out.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{as_json(record)}\n" for record in records)
    if cfg.out.suffix.lower() == ".csv":  # the words and tags of a row with blanks between them
        names = tuple((name, "") for name in records[0])
        cells_of = [
            (v if isinstance(v, str | int) else " ".join(v) for v in each.values()) for each in records
        ]
        # By the mark Excel knows UTF-8; without it letters beyond ASCII are shown as others.
        text = "\ufeff" + to_csv(Table("answers", "", names, tuple(map(tuple, cells_of))))
    write_atomic(cfg.out, text)
    return Answer(f"{len(records)} rows: {cfg.out}", {"rows": len(records), "file": str(cfg.out)})


class Labeller:
    """A fine-tuned model that labels texts.

    Args:
        checkpoint: folder of ``xling finetune``.
        head: name of the head, where it has several.

    Raises:
        UserError: it is not fine-tuned, or its task labels no texts.
    """

    def __init__(self, checkpoint: Path, head: str = "") -> None:
        check_is_tuned(checkpoint)
        from xling.transfer.backend import load_tuned  # imports torch

        self._tuned = load_tuned(checkpoint, head)
        task = self._tuned.task
        fitting = [kind for kind in KINDS.values() if kind.task == task and kind.own_columns]
        if not fitting:
            raise UserError(f"{checkpoint} is fine-tuned for {task}", "classes, pairs, tags or spans")
        self._kind: Kind = fitting[0]
        self._marks = model_folder.tag_marks(checkpoint).get(model_folder.TAG_MARKS, "")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a row needs."""
        return tuple(column for column in self._kind.own_columns if column not in (LABEL, TAG))

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that the model chooses from."""
        return self._tuned.labels

    def answers(self, rows: Sequence[Mapping[str, Any]], lang: str) -> list[dict[str, Any]]:
        """Return the texts of each row with its answer.

        Args:
            rows: the cells of each row by column; a text in place of words is split at blanks and punctuation.
        """
        code = languages.get(code_of(lang)).code
        examples = [
            Example(str(i), self._kind.row_of_cells(_with_words(row), i)[0], None)
            for i, row in enumerate(rows)
        ]
        answers: Iterable[Any] = self._predicted(examples, code)
        if self._marks:
            answers = (written_with(self._marks, tags) for tags in answers)
        return [
            {**example.fields, **self._kind.cells_of_answer(answer)}
            for example, answer in zip(examples, answers, strict=True)
        ]

    def _predicted(self, examples: Sequence[Example], lang: str) -> Iterator[Any]:
        with Progress("predict", len(examples), "rows") as progress:
            num_parts = -(-len(examples) // self._tuned.ROWS_AT_ONCE)
            for number in range(num_parts):  # of equal size: a static encoder compares the rows of one part
                start, end = (len(examples) * n // num_parts for n in (number, number + 1))
                part = examples[start:end]
                yield from self._tuned.predict(part, lang=lang)
                progress.update(len(part))

    def cells_of(self, item: Any) -> dict[str, Any]:
        """Return the cells of a row given in Python: a text, a mapping, or as many values as there are columns.

        Raises:
            UserError: it is none of these.
        """
        values: dict[str, Any] = {}
        if isinstance(item, Mapping):
            name_of = guessed_columns([*map(str, item)], self.columns, ())
            values = {column: item[name] for column, name in name_of.items() if name in item}
        elif len(self.columns) == 1:
            values = {self.columns[0]: item}
        elif isinstance(item, Iterable) and not isinstance(item, str):
            given = [*item] if getattr(item, "ndim", 1) else []
            values = dict(zip(self.columns, given, strict=True)) if len(given) == len(self.columns) else {}
        if not all(_is_cell(values.get(column), column == "token") for column in self.columns):
            raise UserError(f"{item!r}"[:80], f"texts of {', '.join(self.columns)}", "none of them empty")
        return {column: values[column] for column in self.columns}


def _is_cell(value: Any, may_be_words: bool) -> bool:
    """Return whether a value is a text with something in it, or a list of such texts."""
    words = [value] if isinstance(value, str) or not may_be_words else value
    has_words = (
        isinstance(words, Iterable) and not isinstance(words, Mapping) and getattr(words, "ndim", 1) > 0
    )
    texts = [*words] if has_words else []
    return bool(texts) and all(isinstance(text, str) and text for text in texts)


def _with_words(cells: Mapping[str, Any]) -> dict[str, Any]:
    """Return cells whose text in place of words is split into words."""
    words = cells.get("token")
    if words is None:
        return dict(cells)
    return {**cells, "token": tuple(words_of(words)) if isinstance(words, str) else tuple(words)}

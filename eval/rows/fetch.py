"""Download of a suite's rows from the Hugging Face Hub into the data folder's ``rows/``: ``xling eval fetch``."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from xling.core.errors import UserError
from xling.core.output.command_result import Answer
from xling.core.output.manifest import write_atomic
from xling.core.settings.values import LangOrPair
from xling.eval.rows.suite import ROWS, Example, Suite, check_rows, data_folder, row_line, suites


@dataclass(frozen=True)
class FetchConfig:
    """Settings of ``xling eval fetch``.

    Args:
        suite: name of a suite that has an online source.
        langs: languages to fetch; default: the published ones.
        splits: splits to fetch; default: those of the suite.
        data: folder of the suites' files; default: what XLING_DATA names.
        name: another dataset (or a local folder) with the same columns.
        revision: git revision of the dataset; default: the suite's.
    """

    suite: str
    langs: tuple[LangOrPair, ...] = ()
    splits: tuple[str, ...] = ()
    data: Path | None = None
    name: str = ""
    revision: str = ""


def run(cfg: FetchConfig) -> Answer:
    """Fetch, check and write the rows; returns what was written."""
    suite, data = suites()[cfg.suite], data_folder(cfg.data)
    lines, written = [], []
    for lang in cfg.langs or suite.languages:
        for split in cfg.splits or suite.splits:
            rows = list(check_rows(suite, fetch(suite, lang, split, cfg.name, cfg.revision)))
            path = data / ROWS / suite.name / f"{lang}.{split}.jsonl"
            write_atomic(path, "".join(map(row_line, rows)))
            lines.append(f"{path}: {len(rows)} rows")
            written.append({"lang": lang, "split": split, "file": str(path), "rows": len(rows)})
    return Answer("\n".join(lines), written)


def fetch(
    suite: Suite, lang: str, split: str, name: str = "", revision: str = ""
) -> Iterator[tuple[Path, int, Example]]:
    """Yield the rows of a language and split as `datasets` has them, equal to those of the local files.

    Raises:
        UserError: the suite has no online source, or the source has not this language and split.
    """
    if suite.online is None:
        fetchable = sorted(other.name for other in suites().values() if other.online)
        raise UserError(
            f"suite {suite.name!r} has no online source",
            f"online sources: {', '.join(fetchable)}",
            "put its files into data=",
        )
    import datasets

    source = suite.online
    config = source.config.format(lang=lang, code=suite.codes.get(lang, lang))
    hub_split = source.splits.get(split, split)
    revision_setting = {} if name and Path(name).is_dir() else {"revision": revision or source.revision}
    try:
        records = datasets.load_dataset(name or source.name, config, split=hub_split, **revision_setting)
    except (ValueError, OSError, datasets.exceptions.DatasetsError) as error:
        raise UserError(
            f"{name or source.name} gave no {hub_split!r} rows of {config!r}: {str(error).splitlines()[0]}",
            fix="check the network, langs=, splits= and revision=",
        ) from None
    path = Path(f"{name or source.name}/{config}/{hub_split}")
    for index, record in enumerate(records):
        # Numbers of classes become their names.
        converted = dict(record)
        for key, feature in records.features.items():
            inner = getattr(feature, "feature", None)
            if hasattr(feature, "int2str"):
                converted[key] = feature.int2str(record[key])
            elif inner is not None and hasattr(inner, "int2str"):
                converted[key] = [inner.int2str(number) for number in record[key]]
        yield path, index + 1, source.to_example(converted, index)

"""Chains of pair filters: a recipe of names and settings, run batch by batch with every loss counted."""

from dataclasses import dataclass, field
from typing import Any

import polars as pl

from xling.core.errors import UserError, unknown
from xling.core.settings import config
from xling.corpora.parallel.filters import PAIR_FILTERS, Context, CorpusFilter, PairFilter
from xling.text.document import Ledger

DEFAULT_FILTERS = (
    "repair",
    "empty",
    "length",
    "long_words",
    "script",
    "numbers",
    "noise",
    "repetition",
    "langid",
    "overlap",
    "align",
    "duplicates",
    "score",
)
REPAIRED = "repaired"
"""In a ledger: how notes of repairs begin, and the stage of their samples."""
_SHOWN_CHARS = 80  # characters of a repaired text in the card


@dataclass(frozen=True)
class Chain:
    """Filters in their order: those of batches, then those of the corpus."""

    batch: tuple[PairFilter, ...]
    corpus: tuple[CorpusFilter, ...]
    context: Context
    fitted_filters: dict[str, PairFilter] = field(default_factory=dict)
    """Filters with what they learned from the first batch, by name."""

    @property
    def values(self) -> dict[str, str]:
        """Column that the filters of batches leave with each pair -> what it says."""
        return {name: text for item in self.batch for name, text in item.values.items()}

    @property
    def reasons(self) -> dict[tuple[str, str], str]:
        """(filter, reason) -> what it means."""
        both = (*self.batch, *self.corpus)
        return {(item.name, reason): text for item in both for reason, text in item.reasons.items()}

    def run_batch(self, pairs: pl.DataFrame, ledger: Ledger) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The pairs of a batch that survive with `values`, and those that do not with ``stage`` and ``reason``."""
        lost: list[pl.DataFrame] = []
        columns = list(pairs.columns)
        for given in self.batch:
            if given.name not in self.fitted_filters:
                self.fitted_filters[given.name] = given.fitted(pairs, self.context)
            item = self.fitted_filters[given.name]
            for event, count in item.notes(pairs, self.context).items():
                ledger.count_event(event, count)
            pairs, changes = item.repaired(pairs, self.context)
            count_repairs(changes, ledger)
            pairs = item.measured(pairs, self.context)
            pairs, dropped = split(pairs, item.judge(pairs, self.context), item.name, ledger)
            lost.append(dropped.select(*columns, "stage", "reason"))
        kept = pairs.select(*columns, *self.values)
        return kept, pl.concat(lost) if lost else add_reason(pairs.clear(), "", "")

    def keys(self, pairs: pl.DataFrame) -> list[pl.DataFrame]:
        """The keys that each corpus filter wants of a batch."""
        return [item.keys(pairs, self.context) for item in self.corpus]

    def judge_corpus(self, keys: list[pl.DataFrame]) -> tuple[pl.Series, pl.Series]:
        """For every pair of the corpus the corpus filter that drops it and its reason, both null where it stays.

        Args:
            keys: for each corpus filter, the keys of all pairs in order.
        """
        height = keys[0].height if keys else 0
        empty = pl.repeat(None, height, dtype=pl.String, eager=True)
        reasons_by_pair = pl.DataFrame({"stage": empty, "reason": empty})
        for item, table in zip(self.corpus, keys, strict=True):
            left = reasons_by_pair["reason"].is_null()
            place = pl.DataFrame({"row": left.arg_true()})
            new = place.with_columns(item.judge(table.filter(left), self.context).alias("new"))
            with_values = reasons_by_pair.with_row_index("row").join(
                new.cast({"row": pl.get_index_type()}), on="row", how="left", maintain_order="left"
            )
            stage = pl.when(pl.col("new").is_not_null()).then(pl.lit(item.name)).otherwise("stage")
            reason = pl.coalesce("new", "reason")
            reasons_by_pair = with_values.select(stage.alias("stage"), reason.alias("reason"))
        return reasons_by_pair["stage"], reasons_by_pair["reason"]


def build(names: tuple[str, ...], settings: dict[str, dict[str, Any]], context: Context) -> Chain:
    """The chain that a recipe describes.

    Args:
        names: filters in order; corpus filters must stand behind all batch filters.
        settings: filter -> its settings.
        context: the pair and its held-out files.

    Raises:
        UserError: an unknown filter or setting, a filter named twice, or a wrong order.
    """
    for name in settings:
        if name not in names:
            raise unknown("filter in settings", name, names)
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UserError(f"filter {twice[0]!r} is listed twice", "each filter once")
    enabled = [
        config.from_dict(PAIR_FILTERS[name], settings.get(name, {}), f"settings.{name}") for name in names
    ]
    corpus = [item for item in enabled if isinstance(item, CorpusFilter)]
    batch_filters = [item for item in enabled if not isinstance(item, CorpusFilter)]
    if enabled != [*batch_filters, *corpus]:
        behind = ", ".join(item.name for item in corpus)
        raise UserError(
            f"filters {','.join(names)}", f"filters of the whole corpus ({behind}) last", "reorder them"
        )
    return Chain(tuple(batch_filters), tuple(corpus), context)


def add_reason(pairs: pl.DataFrame, stage: str, reason: pl.Series | str) -> pl.DataFrame:
    """``pairs`` with the columns ``stage`` and ``reason`` behind."""
    why = pl.lit(reason) if isinstance(reason, str) else reason.alias("reason")
    return pairs.with_columns(pl.lit(stage).alias("stage"), why.cast(pl.String).alias("reason"))


def split(
    pairs: pl.DataFrame, reasons: pl.Series, stage: str, ledger: Ledger
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The pairs without a reason to go, and the others with it; both are counted."""
    count_entered(pairs, stage, ledger)
    is_kept = reasons.is_null()
    if is_kept.all():
        return pairs, add_reason(pairs.clear(), stage, "")
    dropped = add_reason(pairs.filter(~is_kept), stage, reasons.filter(~is_kept))
    count_dropped(dropped, ledger)
    return pairs.filter(is_kept), dropped


def count_entered(pairs: pl.DataFrame, stage: str, ledger: Ledger) -> None:
    """Count pairs as having reached ``stage``; characters are those of both sides."""
    ledger.seen[stage] += pairs.height
    ledger.seen_chars[stage] += num_chars(pairs)


def count_repairs(changes: pl.DataFrame, ledger: Ledger) -> None:
    """Count changes of `REPAIRS` by kind, and keep samples before and after."""
    for (kind,), group in changes.group_by("kind", maintain_order=True):
        ledger.count_event(f"{REPAIRED}_{kind}", group.height)
        samples = ledger.samples.setdefault((REPAIRED, str(kind)), [])
        for name, before, after in (
            group.head(ledger.num_samples - len(samples)).select("id", "before", "after").rows()
        ):
            same = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), 0)
            start = max(0, same - _SHOWN_CHARS // 4)
            samples.append((name, "\n".join(text[start : start + _SHOWN_CHARS] for text in (before, after))))


def count_dropped(dropped: pl.DataFrame, ledger: Ledger) -> None:
    """Count pairs that have ``stage`` and ``reason``, and keep samples of each."""
    for (stage, reason), group in dropped.group_by("stage", "reason", maintain_order=True):
        key = (str(stage), str(reason))
        ledger.dropped[key] += group.height
        ledger.dropped_chars[key] += num_chars(group)
        kept = ledger.samples.setdefault(key, [])
        wanted = group.head(ledger.num_samples - len(kept)).select("id", "src", "tgt")
        kept += [(name, f"{src[:250]}\n{tgt[:250]}") for name, src, tgt in wanted.iter_rows()]


def num_chars(pairs: pl.DataFrame) -> int:
    """Count the code points of all pairs, both sides together."""
    if not pairs.height:
        return 0
    return int(pairs.select(pl.col("src", "tgt").str.len_chars().sum()).sum_horizontal().item())

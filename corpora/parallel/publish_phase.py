"""The phase ``publish``: filters of the whole corpus, the split by document, Parquet and Moses files, the card."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq

from xling.array_types import Shaped
from xling.core.output.command_result import Answer
from xling.core.output.manifest import publish
from xling.core.output.parts import read_json
from xling.core.sampling import rng
from xling.corpora.card import publication
from xling.corpora.card.counters import Counters
from xling.corpora.card.ledgers import merged_counters, merged_ledger
from xling.corpora.card.publication import STATS
from xling.corpora.common.finished import NothingLeftError
from xling.corpora.common.json_rows import ARRAY_NOTE, COMMA_NOTE, JOINED_NOTE, TWICE_NOTE
from xling.corpora.parallel import audit
from xling.corpora.parallel.chain import REPAIRED, Chain, count_dropped, count_entered
from xling.corpora.parallel.filters import PAIR_FILTERS
from xling.corpora.parallel.read_phase import AUDIT, INPUTS, KEPT, KEYS, REJECTS, TableFile
from xling.corpora.parallel.settings import STAGE_NAME, Build
from xling.corpora.parallel.sources import READ_REASONS, READ_STAGE
from xling.corpora.parallel.sources.tables import FIRST_ROW
from xling.corpora.parallel.sources.variants import SEVERAL_NOTE
from xling.text.document import Ledger
from xling.text.pairs import SCHEMA

SPLITS = ("train", "dev", "test")
SPLIT, CORPUS = "split", "corpus"
_MAX_HELDOUT_SHARE = 0.1
_SPLIT_REASONS = {"leak": "a side is also a side of a pair of the dev or test set"}
_ROWS = 1 << 16


def run_publish(build: Build) -> Answer:
    """Publish the corpus and return a summary of it.

    Raises:
        UserError: not one pair is left; the message says where they went.
    """
    ledger = merged_ledger(build.parts, build.cfg.num_samples)
    counters = merged_counters(build.parts, build.cfg.num_samples)
    nonempty_parts = [folder for folder in build.parts if (folder / KEYS).is_file()]
    keys = (
        pl.concat([pl.read_parquet(folder / KEYS) for folder in nonempty_parts])
        if nonempty_parts
        else pl.DataFrame()
    )
    if not keys.height:
        raise nothing_left(build, ledger)
    outcomes = final_outcomes(keys, build)
    inputs = [Path(path) for folder in build.parts for path in read_json(folder / INPUTS)["digests"]]
    with publish(build.out, STAGE_NAME, build.content, dict.fromkeys(inputs)) as output:
        _write(build, nonempty_parts, outcomes, ledger, counters, output.path)
        if not ledger.seen[CORPUS]:
            raise nothing_left(build, ledger)
        splits = {f"pairs_{name}": int((outcomes["split"] == name).sum()) for name in SPLITS}
        publication.write(output, _stats(build, ledger, counters), ledger, "pairs", **splits)
    if not build.cfg.keep_work:
        shutil.rmtree(build.workspace.root.parent)
    return summary(build.out)


def final_outcomes(keys: pl.DataFrame, build: Build) -> pl.DataFrame:
    """For every pair that the batch filters kept, in order: ``stage`` and ``reason`` if it goes, else ``split``."""
    tables = []
    for position in range(len(build.chain.corpus)):
        names = [name for name in keys.columns if name.startswith(f"{position}:")]
        tables.append(keys.select(names).rename({name: name.partition(":")[2] for name in names}))
    if tables:
        stage, reason = build.chain.judge_corpus(tables)
    else:
        stage = reason = pl.repeat(None, keys.height, dtype=pl.String, eager=True)
    kept_rows = reason.is_null().arg_true().to_numpy()
    kept = keys[kept_rows]
    splits = split_of(kept, build.cfg.dev_pairs, build.cfg.test_pairs, build.cfg.seed)
    is_leak = np.zeros(keys.height, bool)
    # Rows of train with a side of dev or test, and of dev with a side of test.
    frame = kept.select(
        "split_src", "split_tgt", pl.Series("split", splits.tolist(), pl.String)
    ).with_row_index()
    leaked: list[int] = []
    for learned_split, heldout_splits in (("train", ("dev", "test")), ("dev", ("test",))):
        heldout = frame.filter(pl.col("split").is_in(heldout_splits))
        same = pl.any_horizontal(
            pl.col(f"split_{side}").is_in(heldout[f"split_{side}"].unique().implode())
            for side in ("src", "tgt")
        )
        leaked += frame.filter((pl.col("split") == learned_split) & same)["index"].to_list()
    is_leak[kept_rows[np.array(sorted(leaked), dtype=np.int64)]] = True
    split = np.full(keys.height, "", dtype=object)
    split[kept_rows] = splits
    split[is_leak] = ""
    leak = pl.Series(is_leak)
    return pl.DataFrame({"stage": stage, "reason": reason}).with_columns(
        pl.when(leak).then(pl.lit(SPLIT)).otherwise("stage").alias("stage"),
        pl.when(leak).then(pl.lit("leak")).otherwise("reason").alias("reason"),
        pl.Series("split", split.tolist(), pl.String),
    )


def split_of(kept: pl.DataFrame, dev_pairs: int, test_pairs: int, seed: int) -> Shaped[np.ndarray, " pairs"]:
    """``train``, ``dev`` or ``test`` for each pair: whole documents are held out, single pairs without one.

    A document that does not fit into what is left of a share stays in ``train``.

    Args:
        kept: with the column ``doc``.
        dev_pairs: pairs for dev, at most a tenth of all.
        test_pairs: pairs for test, at most a tenth of all.
        seed: of the order in which documents are taken.
    """
    row = pl.int_range(pl.len())
    group = pl.when(pl.col("doc") == "").then(row.cast(pl.String)).otherwise("doc:" + pl.col("doc"))
    groups = kept.select(group.rank("dense").cast(pl.Int64).alias("g") - 1)["g"].to_numpy()
    sizes = np.bincount(groups) if len(groups) else np.zeros(0, np.int64)
    order = rng(seed, "split").permutation(len(sizes))
    splits = np.full(len(sizes), "train", dtype=object)
    for name, num_pairs in (("dev", dev_pairs), ("test", test_pairs)):
        num_missing = min(num_pairs, int(_MAX_HELDOUT_SHARE * kept.height))
        for document in order:
            if splits[document] == "train" and sizes[document] <= num_missing:
                splits[document] = name
                num_missing -= sizes[document]
            if not num_missing:
                break
    return splits[groups]


def _write(
    build: Build, folders: list[Path], outcomes: pl.DataFrame, ledger: Ledger, counters: Counters, out: Path
) -> None:
    """Write shards, Moses files and rejects, and count what happens to each pair."""
    (out / "shards").mkdir()
    (out / "rejects").mkdir()
    tables = {name: TableFile(out / "shards" / f"{name}.parquet") for name in SPLITS}
    rejects = TableFile(out / "rejects" / "publish.parquet")
    langs = build.langs
    with ExitStack() as stack:
        moses = {
            (name, code): stack.enter_context((out / f"{name}.{code}").open("w", encoding="utf-8"))
            for name in SPLITS
            for code in langs
        }
        first = 0
        for index, folder in enumerate(folders):
            if (folder / REJECTS).is_file():
                shutil.copyfile(folder / REJECTS, out / "rejects" / f"read-{index:05d}.parquet")
            for arrow in pq.ParquetFile(folder / KEPT).iter_batches(batch_size=_ROWS):
                pairs = pl.DataFrame(pl.from_arrow(arrow))
                outcome = outcomes.slice(first, pairs.height)
                first += pairs.height
                lost = pl.concat([pairs, outcome.select("stage", "reason")], how="horizontal").filter(
                    outcome["reason"].is_not_null()
                )
                count_passage(pairs, outcome, build.chain, ledger)
                counters.drop_pairs(lost)
                rejects.add(lost.select(*SCHEMA, "stage", "reason"))
                for name in SPLITS:
                    split_pairs = pairs.filter(outcome["split"] == name)
                    tables[name].add(split_pairs)
                    counters.count_published_pairs(split_pairs, build.cfg.num_samples)
                    _write_moses(split_pairs, moses, name, langs)
    for file in (*tables.values(), rejects):
        file.close()


def _write_moses(
    pairs: pl.DataFrame, files: Mapping[tuple[str, str], IO[str]], split: str, langs: tuple[str, str]
) -> None:
    for side, lang in zip(("src", "tgt"), langs, strict=True):
        if pairs.height:
            files[split, lang].write("\n".join(pairs[side]) + "\n")


def count_passage(pairs: pl.DataFrame, outcome: pl.DataFrame, chain: Chain, ledger: Ledger) -> None:
    """Count which corpus filter each pair reached and where it went."""
    remaining = pairs.with_columns(outcome["stage"], outcome["reason"])
    for name in (*(item.name for item in chain.corpus), SPLIT):
        count_entered(remaining, name, ledger)
        count_dropped(remaining.filter((pl.col("stage") == name).fill_null(False)), ledger)
        remaining = remaining.filter((pl.col("stage") != name).fill_null(True))
    count_entered(remaining, CORPUS, ledger)


def _stats(build: Build, ledger: Ledger, counters: Counters) -> dict[str, Any]:
    parts = [read_json(folder / INPUTS) for folder in build.parts]
    audits = [read_json(folder / AUDIT) for folder in build.parts if (folder / AUDIT).is_file()]
    inputs = {path: {"sha256": digest} for part in parts for path, digest in part["digests"].items()}
    # A row for each kind of repair: how many texts, and one before and after.
    rows = []
    for (stage, kind), shown in ledger.samples.items():
        if stage == REPAIRED:
            before, _, after = shown[0][1].partition("\n") if shown else ("", "", "")
            rows.append([kind, f"{ledger.notes[f'{REPAIRED}_{kind}']:,}", before, after])
    return publication.stats_of(
        ledger,
        counters,
        kind="parallel",
        title=f"Parallel corpus {'-'.join(build.langs)}",
        unit="pairs",
        lang=build.langs[0],
        pair="-".join(build.langs),
        config=build.content,
        sources=[source for part in parts for source in part["sources"]],
        inputs=inputs,
        stages=[READ_STAGE, *build.cfg.filters, SPLIT, CORPUS],
        reasons=_meanings(build),
        audit=audit.rows(audit.merge(audits)),
        repairs=sorted(rows),
    )


def _meanings(build: Build) -> dict[str, str]:
    """Map ``stage<TAB>reason`` to its explanation."""
    meanings = build.chain.reasons | {(READ_STAGE, r): t for r, t in READ_REASONS.items()}
    meanings |= {(SPLIT, r): t for r, t in _SPLIT_REASONS.items()}
    return {f"{stage}\t{reason}": text for (stage, reason), text in meanings.items()}


def summary(out: Path) -> Answer:
    """One paragraph on a published corpus."""
    stats = read_json(out / STATS)
    seen, counts = stats["ledger"]["seen"], stats["ledger"]["notes"]
    told = (COMMA_NOTE, ARRAY_NOTE, JOINED_NOTE, TWICE_NOTE, SEVERAL_NOTE)
    notes = [f"  {note}: {counts[note]:,}" for note in sorted(counts) if note.startswith(told)]
    tokenised = "settings.repair.tokenised=true"
    text = publication.summary(out, stats, stats["pair"], ("pairs",), notes, tokenised, PAIR_FILTERS)
    pairs = {"read": {"pairs": seen[READ_STAGE]}, "kept": {"pairs": seen[CORPUS]}}
    return Answer(text, {"pair": stats["pair"], "out": str(out), **pairs})


def nothing_left(build: Build, ledger: Ledger) -> NothingLeftError:
    """The error for an empty result, with the commonest reasons."""
    if not ledger.seen[READ_STAGE]:
        return NothingLeftError(f"no sentence pair in {', '.join(build.uris)}", fix="check source= and pair=")
    said, setting = publication.nothing_left(ledger, "pairs", _meanings(build), PAIR_FILTERS)
    if any(note.startswith(FIRST_ROW) for note in ledger.notes):
        setting += ", name the two columns behind the file: FILE#SRC+TGT"
    return NothingLeftError(said, fix=f"{setting}, or check pair=")

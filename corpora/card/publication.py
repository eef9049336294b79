"""Publication of a corpus: statistics, a data card, counts in its manifest, and a summary."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from xling.core.output.manifest import Publication
from xling.core.output.parts import write_json
from xling.corpora.card import data_card
from xling.corpora.card.counters import Counters
from xling.corpora.card.ledgers import chars_of_stages, dropped_by_reason, ledger_to_json, main_reasons
from xling.corpora.card.losses import loss_note, setting_of, tokenised_note
from xling.text.document import Ledger

STATS = "stats.json"


def stats_of(ledger: Ledger, counters: Counters, **facts: Any) -> dict[str, Any]:
    """Return the statistics of a corpus, JSON-ready, from which its card is made.

    Args:
        facts: ``lang``, ``config``, ``sources``, ``inputs``, ``stages`` in their order, ``reasons`` as
            ``stage<TAB>reason`` -> meaning, and what only some corpora have.
    """
    counts = {"ledger": ledger_to_json(ledger), "counters": counters.to_json()}
    return {"partial": [], "lm_note": ""} | counts | facts


def write(
    publication: Publication, stats: Mapping[str, Any], ledger: Ledger, unit: str, **counts: Any
) -> None:
    """Write the statistics and the card, and count in the manifest what is published and dropped."""
    write_json(publication.path / STATS, stats)
    data_card.write(publication.path, dict(stats))
    publication.counts |= {
        unit: ledger.seen["corpus"],
        "characters": ledger.seen_chars["corpus"],
        **counts,
        "dropped": dropped_by_reason(ledger),
    }


def summary(
    out: Path,
    stats: Mapping[str, Any],
    name: str,
    units: Sequence[str],
    notes: Iterable[str],
    tokenised: str,
    classes: Mapping[str, Any],
) -> str:
    """Return a paragraph on a published corpus.

    Args:
        name: what it is called, its language or pair.
        units: what is counted, ``documents`` or ``pairs``, and perhaps ``characters``.
        notes: lines on events.
        tokenised: setting that undoes tokenisation.
        classes: stage name -> its class.
    """
    ledger = stats["ledger"]
    amounts, losses = [], []
    for unit in units:
        counts = chars_of_stages(stats) if unit == "characters" else ledger["seen"]
        share = 100 * counts["corpus"] / max(1, counts["read"])
        amounts.append(f"{counts['corpus']:,} of {counts['read']:,} {unit} ({share:.1f} %)")
        losses.append(loss_note(stats, counts["read"], counts["corpus"], unit, classes))
    lines = [
        f"{name}: {', '.join(amounts)} in {out}",
        f"  data card: {out / data_card.HTML_FILE}",
        *damage_lines(ledger),
        *notes,
        tokenised_note(ledger["notes"], ledger["seen"]["read"], tokenised),
        next(filter(None, reversed(losses)), ""),
    ]
    return "\n".join(filter(None, lines))


def damage_lines(ledger: Mapping[str, Any]) -> list[str]:
    """Return lines on files that are not whole: what they lack is in no count of documents; none without any."""
    lost = {
        key.partition("\tlost: ")[2]: n
        for key, n in ledger.get("num_bytes", {}).items()
        if "stored\tlost: " in key
    }
    ended = {note: n for note, n in sorted(ledger["notes"].items()) if note.startswith("truncated")}
    return [
        *(
            f"  {num:,} {note}: what is missing behind its end is not counted; get it again"
            for note, num in ended.items()
        ),
        *(f"  {num:,} bytes of files could not be read: {reason}" for reason, num in sorted(lost.items())),
    ]


def nothing_left(
    ledger: Ledger,
    unit: str,
    reasons: Mapping[str, str],
    classes: Mapping[str, Any],
    partial: Collection[tuple[str, str]] = (),
) -> tuple[str, str]:
    """Return what to say of a corpus without a row: the commonest reasons, and the setting of the first."""
    whole = {key: num for key, num in ledger.dropped.items() if key not in partial}
    stage, reason = max(whole, key=lambda key: (whole[key], key), default=("read", ""))
    meaning = reasons.get(f"{stage}\t{reason}", "")
    said = f"none of {ledger.seen['read']:,} {unit} is left: {main_reasons(ledger, partial)}"
    setting = setting_of(stage, reason, meaning, classes)
    notes = "".join(f"; {note}" for note in ledger.notes if note.startswith(f"{reason}: "))[:300]
    return f"{said}{f' ({reason}: {meaning})' if meaning else ''}{notes}", setting

"""Hosts ranked by how many of their pages are in a language, for languages that the index does not name.

Of the rows that may be in the language, the first thousand pages of many hosts are fetched and identified. The table
of hosts that this gives is a file, and ranks the rows of this dump and of others.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from xling.core.errors import UserError
from xling.core.output import manifest
from xling.corpora.crawl_index.part import HOST
from xling.corpora.crawl_index.selection import drawn
from xling.text.files.compressed import MAX_CELL_BYTES

SAMPLE_PAGES = 1000
_MOST_OF_A_HOST = 20
MIN_SHARE = 0.1
"""Hosts of which a smaller share of pages is expected in the language are left out."""
OTHER_HOST = "hosts with few pages in the language"
_PRIOR_PAGES = 1.0  # that a host's domain counts beside the pages that were tried
_HEAD = ("host", "pages", "in_language", "share")


@dataclass(frozen=True)
class HostTable:
    """Pages of each host that were tried.

    Attributes:
        tried: host -> pages that were identified, and those of them in the language.
    """

    tried: Mapping[str, tuple[int, int]]

    _of_domain: Mapping[str, float] = field(init=False)
    _of_all: float = field(init=False)

    def __post_init__(self) -> None:
        """Compute the mean share of hosts of each top domain, and of all."""
        shares: dict[str, list[float]] = defaultdict(list)
        for host, (pages, good) in self.tried.items():
            if pages:
                shares[host.rpartition(".")[2]].append(good / pages)
        all_shares = [share for some in shares.values() for share in some]
        object.__setattr__(self, "_of_domain", {d: sum(some) / len(some) for d, some in shares.items()})
        object.__setattr__(self, "_of_all", sum(all_shares) / max(1, len(all_shares)))

    def share(self, host: str) -> float:
        """Return the share of a host's pages that is expected to be in the language.

        It is that of the tried pages and of one page more, which is as the hosts of the same top domain are.
        """
        pages, good = self.tried.get(host, (0, 0))
        return (good + _PRIOR_PAGES * self._of_domain.get(host.rpartition(".")[2], self._of_all)) / (
            pages + _PRIOR_PAGES
        )

    def write(self, path: Path) -> None:
        """Write the table, best hosts first."""
        order = sorted(self.tried, key=lambda host: (-self.share(host), -self.tried[host][0], host))
        rows = [(h, *self.tried[h], f"{self.tried[h][1] / max(1, self.tried[h][0]):.4f}") for h in order]
        lines = ["\t".join(map(str, row)) for row in (_HEAD, *rows)]
        manifest.write_atomic(path, "\n".join(lines) + "\n")


def read_table(path: Path) -> HostTable:
    """Return the table in a file.

    Raises:
        UserError: there is none, or it is none.
    """
    valid = f"lines of {', '.join(_HEAD)} with tabs between them, as hosts=auto writes"
    if not path.is_file():
        raise UserError(f"hosts={path}: no such file", f"auto, or {valid}")
    tried: dict[str, tuple[int, int]] = {}
    with path.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(iter(lambda: lines.readline(MAX_CELL_BYTES), ""), 1):
            cells = line.rstrip("\n").split("\t")
            if number == 1 and cells[:3] == list(_HEAD[:3]):
                continue
            good = len(cells) >= 3 and cells[0] and cells[1].isdecimal() and cells[2].isdecimal()
            if not good or int(cells[2]) > int(cells[1]):
                raise UserError(f"{path}, line {number}: {line[:80]!r}", valid)
            tried[cells[0]] = int(cells[1]), int(cells[2])
    if not tried:
        raise UserError(f"hosts={path} is empty", valid)
    return HostTable(tried)


def sample(table: pl.DataFrame, codes: Iterable[str], seed: int, num: int = SAMPLE_PAGES) -> pl.DataFrame:
    """Return rows of many hosts: one of each, then two, and so on; those first whose name has the language's code.

    Args:
        table: cleaned rows.
        codes: of the languages, ``ast`` for ``ast.example.org``.
    """
    labels = set(codes)
    hosts = table[HOST].fill_null("").unique().to_list()
    named = [host for host in hosts if labels & set(host.split(".")[:-1])]
    numbers = {host: drawn(host, seed) for host in hosts}
    host = pl.col(HOST).fill_null("")
    order = ["nth", ~pl.col("named"), "rank", "drawn", "warc_filename", "warc_record_offset"]
    ranked = (
        table.with_columns(
            named=host.is_in(named), drawn=host.replace_strict(numbers, return_dtype=pl.UInt64)
        )
        .with_columns(nth=pl.int_range(pl.len()).over(HOST))
        .filter(pl.col("nth") < _MOST_OF_A_HOST)
        .sort(order)
    )
    return ranked.head(num).select(table.columns)


def tried_of(hosts: Iterable[str], good_hosts: Iterable[str]) -> HostTable:
    """Return the table of pages by host: one name for each page that was fetched, and for each in the language."""
    pages, good = Counter(hosts), Counter(good_hosts)
    return HostTable({host: (num, min(num, good[host])) for host, num in sorted(pages.items()) if host})


def ranked(table: pl.DataFrame, hosts: HostTable, left_out: Counter[str]) -> pl.DataFrame:
    """Return the rows of hosts with the language, by tiers of their shares; the others are counted."""
    names = table[HOST].fill_null("").unique().to_list()
    shares = {host: hosts.share(host) for host in names}
    share = (
        pl.col(HOST).fill_null("").replace_strict(shares, return_dtype=pl.Float64) if names else pl.lit(0.0)
    )
    kept = table.with_columns(share=share).filter(pl.col("share") >= MIN_SHARE)
    left_out[OTHER_HOST] += len(table) - len(kept)
    return kept.with_columns(tier=(-10 * pl.col("share")).floor().cast(pl.Int64)).drop("share")

"""The built-in list of adult and gambling sites: hashes of domain names, by kind.

Source: Sinfonietta/hostfiles on GitHub (MIT, `blocked_sites.txt`), commit 62631ce. ``python -m benchmarks.sites``
writes the table. It holds 40 bits of a hash of each domain: one site in ten million is taken for a listed one.
"""

import io
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path

import numpy as np
import xxhash

KINDS = ("adult", "gambling")
_HASH_BITS = 40
# No list is complete: parts of host names that hardly any other site has.
_FILES_OF_KINDS = {
    "adult": ("porn", "xxx", "xvideo", "xhamster", "hentai", "sexcam", "camsex", "livesex", "nudecam"),
    "gambling": (
        "onlinecasino", "casinoonline", "online-casino", "casino-online", "casinobonus", "slotgacor", "slot88",
        "togelonline", "judionline", "pokeronline",
    ),
}  # fmt: skip


def _domain_hash(domain: str) -> int:
    return xxhash.xxh64_intdigest(domain.encode("utf-8", "replace")) >> (64 - _HASH_BITS)


def save(path: Path, domains: Mapping[str, list[str]]) -> None:
    """Write a table of hashed domains.

    Args:
        path: file to write; equal domains give equal bytes.
        domains: for each of `KINDS`, its domains without ``www.``.
    """
    steps = {}
    for kind in KINDS:
        numbers = np.array(sorted({_domain_hash(name.lower()) for name in domains[kind]}), dtype=np.int64)
        steps[kind] = np.diff(numbers, prepend=0)
    with path.open("wb") as handle:
        np.savez_compressed(
            handle, adult=steps["adult"].astype(np.uint64), gambling=steps["gambling"].astype(np.uint64)
        )


@cache
def _listed_domains(kinds: tuple[str, ...]) -> frozenset[int]:
    stored = resources.files("xling.corpora.builtin").joinpath("blocked_sites.npz").read_bytes()
    with np.load(io.BytesIO(stored), allow_pickle=False) as table:
        return frozenset(number for kind in kinds for number in np.cumsum(table[kind]).tolist())


def is_listed(host: str, kinds: tuple[str, ...]) -> bool:
    """Return whether a host, or a domain that it is part of, is a listed site, or its name tells that it is one.

    Args:
        host: lower-case host name.
        kinds: of `KINDS`.
    """
    if any(part in host for kind in kinds for part in _FILES_OF_KINDS[kind]):
        return True
    labels, listed = host.strip(".").split("."), _listed_domains(kinds)
    return any(_domain_hash(".".join(labels[i:])) in listed for i in range(len(labels) - 1))

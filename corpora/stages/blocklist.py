"""Documents from blocked sites or full of blocked words.

A list of adult and gambling sites is built in (`xling.corpora.builtin.blocked_sites`). Others are text files of the
user, with one entry a line; ``#`` starts a comment. The UT1 lists of Toulouse university and the LDNOOBW word lists
fit as they are. No list of words is built in: what is adult or spam differs between languages and users.
"""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

from xling.core.errors import UserError, unknown
from xling.corpora.builtin import blocked_sites
from xling.corpora.stages import STREAMING, Stage
from xling.text.document import Document
from xling.text.words.units import split_units

_PLAIN_HOST = re.compile(r"[a-z0-9.-]+(?=[/?#]|\Z)")
_URL_WORD = re.compile(r"[^\W_]+")


@STREAMING.register("blocklist")
@dataclass(frozen=True)
class Blocklist(Stage):
    """Drop documents by the site they come from, by words in their address, or by words in their text.

    Args:
        domains: files of domains; ``example.org`` blocks ``www.example.org`` too. A full URL blocks what
            starts with it.
        url_words: files of words that may not stand alone in a URL, between punctuation.
        words: files of words or phrases of the text.
        min_words: distinct blocked words that must occur before a document is dropped.
        min_word_ratio: occurrences of blocked words per word of the text that drop a document by themselves.
        builtin: kinds of sites of the built-in list, ``adult`` and ``gambling``; ``[]`` for none.
    """

    domains: tuple[Path, ...] = ()
    url_words: tuple[Path, ...] = ()
    words: tuple[Path, ...] = ()
    min_words: int = 3
    min_word_ratio: float = 0.05
    builtin: tuple[str, ...] = blocked_sites.KINDS

    name: ClassVar[str] = "blocklist"
    reasons: ClassVar[dict[str, str]] = {
        "listed_site": "its site is on the built-in list of adult and gambling sites",
        "blocked_domain": "its site or address is on a list of domains",
        "blocked_url_word": "its address holds a blocked word",
        "blocked_words": "its text holds too many blocked words",
    }

    def __post_init__(self) -> None:
        for kind in self.builtin:
            if kind not in blocked_sites.KINDS:
                raise unknown("kind of sites in settings.blocklist.builtin", kind, blocked_sites.KINDS)

    def judge(self, doc: Document) -> str | None:
        """Return why a document is blocked, or None."""
        url, text = doc.url, doc.text
        if url and self.builtin and blocked_sites.is_listed(host_of(url), self.builtin):
            return "listed_site"
        if url and self.domains and self._is_blocked(url):
            return "blocked_domain"
        if (
            url
            and self.url_words
            and not _read_entries(self.url_words).isdisjoint(_URL_WORD.findall(url.lower()))
        ):
            return "blocked_url_word"
        if self.words and self._has_blocked_words(text):
            return "blocked_words"
        return None

    def _is_blocked(self, url: str) -> bool:
        blocked_domains = _read_entries(self.domains)
        address = _address(url)
        labels = _host(address).strip(".").split(".")
        if any(".".join(labels[i:]) in blocked_domains for i in range(len(labels))):
            return True
        parts = address.split("/")
        return any("/".join(parts[:i]).rstrip("/") in blocked_domains for i in range(2, len(parts) + 1))

    def _has_blocked_words(self, text: str) -> bool:
        words, phrases = _read_words(self.words)
        text_units = split_units(text)
        hits = [word for word in text_units if word in words]
        distinct = len(set(hits))
        num_hits = len(hits)
        if phrases:
            # A phrase, and any word of a script without spaces, is a run of units.
            padded = f" {' '.join(text_units)} "
            counts = [count for phrase in phrases if (count := padded.count(f" {phrase} "))]
            distinct += len(counts)
            num_hits += sum(counts)
        return distinct >= self.min_words or num_hits > self.min_word_ratio * max(len(text_units), 20)


def host_of(url: str) -> str:
    """Return the host name of a URL, in lower case; empty if there is none."""
    return _host(_address(url))


def _address(url: str) -> str:
    """Return a URL without its scheme, in lower case."""
    return url.lower().partition("://")[2] or url.lower()


def _host(address: str) -> str:
    if plain := _PLAIN_HOST.match(address):  # as nearly all are
        return plain[0]
    try:
        return urlsplit(f"//{address}").hostname or ""
    except ValueError:  # an unmatched bracket; such addresses are in real crawls
        return address.partition("/")[0]


@cache
def _read_entries(paths: tuple[Path, ...]) -> frozenset[str]:
    """Return the lower-cased entries of list files; of a URL the part after the scheme."""
    lines: list[str] = []
    for path in map(Path, paths):
        try:
            lines += path.read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(
                f"blocklist {path} cannot be read: {error}", "a UTF-8 text file, one entry a line"
            ) from None
    entries = (line.partition("#")[0].strip().lower() for line in lines)
    return frozenset((e.partition("://")[2] or e).rstrip("/") for e in entries if e)


@cache
def _read_words(paths: tuple[Path, ...]) -> tuple[frozenset[str], tuple[str, ...]]:
    """Split entries into those of one unit and those of several, whose units are joined by spaces."""
    split = [split_units(entry) for entry in _read_entries(paths)]
    single = frozenset(parts[0] for parts in split if len(parts) == 1)
    return single, tuple(sorted(" ".join(parts) for parts in split if len(parts) > 1))

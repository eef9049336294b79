"""Corpora in Python: build monolingual and parallel ones, and read their texts.

Example::

    folder = xling.corpus.mono("sw", source="text:news/*.txt", out="runs/sw")
    for text in xling.corpus.texts(folder):
        print(text)
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from xling.core.commands import call
from xling.core.commands.runner import load


def mono(lang: str, source: str | Sequence[str], out: Path | str, workers: int = 1, **settings: Any) -> Path:
    """Build a clean, deduplicated corpus of one language, as ``xling corpus mono`` does.

    Args:
        lang: language code, for example ``sw``.
        source: where the text is, for example ``text:news/*.txt`` or ``wet:crawl/*.wet.gz``; several as a list.
        out: folder to publish. If it is there already with the same settings and inputs, nothing is done.
        workers: processes.
        settings: further settings of the command, for example ``near_dedup=False``.

    Returns:
        The folder, with the texts, ``card.html`` (the data card) and ``manifest.json``.

    Raises:
        UserError: an unknown language or setting, or a source without files.
    """
    return _build("corpus mono", {"lang": lang, "source": _several(source), "out": out, **settings}, workers)


def parallel(
    pair: str, source: str | Sequence[str], out: Path | str, workers: int = 1, **settings: Any
) -> Path:
    """Build a clean corpus of sentence pairs, as ``xling corpus parallel`` does.

    Args:
        pair: two language codes, for example ``en-sw``.
        source: where the pairs are, for example ``moses:news.en+news.sw``; several as a list.
        out: folder to publish.
        workers: processes.
        settings: further settings of the command.

    Returns:
        The folder, with ``train.en`` and ``train.sw`` and the data card.

    Raises:
        UserError: an unknown language or setting, or a source without files.
    """
    return _build(
        "corpus parallel", {"pair": pair, "source": _several(source), "out": out, **settings}, workers
    )


def texts(folder: Path | str) -> Iterator[str]:
    """Yield the text of every document of a monolingual corpus, in order.

    Args:
        folder: what `mono` returned.

    Raises:
        UserError: there is no corpus in the folder.
    """
    for document in load("xling.corpora.common.shards:read_corpus")(Path(folder)):
        yield document.text


def _several(source: str | Sequence[str]) -> tuple[str, ...]:
    return tuple(source.split(",")) if isinstance(source, str) else tuple(source)


def _build(name: str, settings: dict[str, Any], workers: int) -> Path:
    call.stage(name, settings, workers)
    return Path(settings["out"])

"""Settings that every stage over a pair of languages shares."""

from pathlib import Path
from typing import Any, ClassVar

from xling.core import languages
from xling.core.settings import config


class OfPair:
    """Base of frozen dataclasses with ``pair`` and ``out``.

    Attributes:
        FOLDER: where the stage publishes when ``out`` is empty, below it a folder for the pair.
        NOT_CONTENT: settings that change nothing in what is published.
    """

    FOLDER: ClassVar[str]
    NOT_CONTENT: ClassVar[frozenset[str]] = frozenset({"out"})

    pair: str
    out: str

    def __post_init__(self) -> None:
        """Reject a pair that is not two known languages.

        Raises:
            UserError: no pair, or a language that is not known.
        """
        languages.get_pair(self.pair)

    @property
    def langs(self) -> tuple[str, str]:
        """The two languages in our own codes."""
        src, tgt = languages.get_pair(self.pair)
        return src.code, tgt.code

    @property
    def directory(self) -> Path:
        """Folder that the stage publishes."""
        return Path(self.out or f"{self.FOLDER}/{'-'.join(self.langs)}")

    def content(self) -> dict[str, Any]:
        """Return the settings that decide what is published."""
        return {key: value for key, value in config.to_dict(self).items() if key not in self.NOT_CONTENT}

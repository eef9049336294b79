"""CLS: opinions in Amazon reviews of books, DVDs and music, in the files of the original archive.

Source of the format: Prettenhofer & Stein 2010, ``cls-acl10-unprocessed``; a rating above 3 is positive, one below is
negative, and 3 does not occur.
"""

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from xling.core.errors import UserError
from xling.corpora.parallel.sources.units import read_small
from xling.eval.rows.suite import Example, Row


def reviews(paths: tuple[Path, ...]) -> Iterator[Row]:
    """Read summary and text of every review of all domains; the id is the domain and the number from 0.

    Raises:
        UserError: a file is not XML, or a review has no rating, or one that is neither positive nor negative.
    """
    for path in paths:
        try:
            items = ElementTree.fromstring(read_small(path)).iter("item")
        except ElementTree.ParseError as error:
            raise UserError(
                f"{path}: not XML: {error}",
                "a file NAME.review of cls-acl10-unprocessed",
                "get the file again",
            ) from None
        for number, item in enumerate(items):
            rating = item.findtext("rating", "").strip()
            if rating.removesuffix(".0") not in ("1", "2", "4", "5"):
                raise UserError(f"{path}: review {number + 1} has the rating {rating!r}", "1, 2, 4 or 5")
            parts = (" ".join(item.findtext(name, "").split()) for name in ("summary", "text"))
            label = "positive" if float(rating) > 3 else "negative"
            yield (
                path,
                number + 1,
                Example(f"{path.parent.name}/{number}", {"text": " ".join(filter(None, parts))}, label),
            )

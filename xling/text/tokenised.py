"""Text that another program has tokenised: told by its traces, and put back as it was written.

The traces are those of the Moses tokenizer (Koehn et al. 2007), of subword-nmt's BPE (Sennrich et al. 2016), of
SentencePiece (Kudo and Richardson 2018), of the Penn Treebank, and marks that training programs add.
"""

from __future__ import annotations

import html
import re

TOKENISED = "tokenised before: "
"""Prefix of the events in the ledger, followed by the kind."""
KINDS = ("BPE", "SentencePiece", "WordPiece", "byte-level BPE", "joiners", "marks of training", "words apart")

_BPE = re.compile(r"\S@@ \S")
_WORDPIECE = re.compile(r"\S ##(?=[^\W\d_])")
_BYTE_LEVEL = re.compile(r"(?:^|\s)Ġ\S", re.MULTILINE)
_MIN_BYTE_LEVEL = 0.4  # of the words; in Maltese few begin with this letter
_JOINER = re.compile(r" ?￭ ?")
_END_OF_WORD = "</w>"
_SENTENCEPIECE = re.compile(r"▁\w\S*(?:\s+\S+)*?\s*▁")
_TRAINING_MARK = re.compile(
    r"</?s>|<(?:mask|pad|unk|eos|bos)>|\[(?:CLS|SEP|MASK|PAD|UNK)\]|^(?:__[a-z]{2,3}__|<2[a-z]{2,3}>) | \|\|\| \d+-\d+"
)
_ESCAPED = re.compile(r"&(?:apos|quot|amp|lt|gt|#91|#93|#124|#37|[lr][ds]quo|hellip);|&amp;amp;")
_JOINED = re.compile(r"(?<=\S) @([-,.:/])@ (?=\S)")
_BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}
_BRACKET = re.compile("|".join(_BRACKETS))
_CLITIC = re.compile(r"(?<=\w) (?:['’](?:s|m|d|re|ve|ll)|n['’]t)(?=\s|$)")
_APART = re.compile(r"(?<=[\w\])\"'”»%]) [.,](?=\s|$)")
_TOGETHER = re.compile(r"(?<=[\w\])\"'”»%])[.,](?=\s|$)")
_UNSPACED = "\u0e01-\u0e7f\u3041-\u30ff\u3400-\u9fff。，、！？；：（）「」"
_SPACED_UNSPACED = re.compile(rf"(?<=[{_UNSPACED}]) (?=[{_UNSPACED}])")
_MIN_SPACED, _MIN_SPACED_SHARE = 5, 0.2  # blanks, and their share of the characters
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
    if "Ġ" in text and len(_BYTE_LEVEL.findall(text)) > _MIN_BYTE_LEVEL * len(text.split()):
        return "byte-level BPE"
    if "▁" in text and _SENTENCEPIECE.search(text):
        return "SentencePiece"
    if any(mark in text for mark in ("<", "__", "|||", "]")) and _TRAINING_MARK.search(text):
        return "marks of training"
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
    if not text.isascii() and _is_spaced(text):
        return "words apart"
    return "words apart" if signs and signs > len(_TOGETHER.findall(text)) else ""


def _is_spaced(text: str) -> bool:
    """Return whether blanks stand between most words of a script that is written without."""
    blanks = len(_SPACED_UNSPACED.findall(text)) if " " in text else 0
    return blanks >= _MIN_SPACED and blanks > _MIN_SPACED_SHARE * len(text)


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
        text = _SPACED_UNSPACED.sub("", text)
    if lang.partition("_")[0] in _ELIDING:
        text = _ELISION.sub(r"\1", text)
    text = _BRACKET.sub(lambda match: _BRACKETS[match[0]], text)
    text = _CLITIC.sub(lambda match: match[0][1:], text)
    text = _QUOTED.sub(r"\1\2\1", text)
    text = (_SPACED_MARK_FRENCH if lang.partition("_")[0] == "fr" else _SPACED_MARK).sub(r"\1", text)
    return _SPACED_OPENING.sub(r"\1", text)

"""Stage that masks personal data: e-mail addresses, telephone numbers, IP addresses; counts go to the document."""

import ipaddress
import re
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from xling.corpora.stages import STREAMING, Stage, Verdict
from xling.text.document import Document

EMAIL_MASK, PHONE_MASK, IP_MASK = "[EMAIL]", "[PHONE]", "[IP]"

# RFC 5321's dot-string and a domain with a dot, in letters of any script (RFC 6531). Lengths are bounded, and
# neighbouring parts share no character, so that matching stays linear.
_EMAIL = re.compile(
    r"(?<![\w.+%-])[\w+%-][\w.+%-]{0,63}@(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.){1,8}[^\W\d_]{2,24}(?![\w@])"
)
_IP = re.compile(
    r"(?<![\w.:])(?:\d{1,3}(?:\.\d{1,3}){3}(?!\.?\w)|[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,7}(?![\w:]))"
)
_DIGIT_GROUPS = re.compile(r"(?<![\w+])[+(]{0,2}\d+(?:[ \u00a0.()/\-\u2010-\u2013]{1,3}\d+){0,8}(?!\w)")
_AREA_CODE = re.compile(r"\(\+?\d{1,5}\)")
_MIN_DIGITS, _MAX_DIGITS = 7, 15  # ITU-T E.164 allows 15
# Words that announce a telephone number, in lower case; they may end in a colon or a dot.
_PHONE_WORDS = (
    "tel", "phone", "telephone", "mobile", "mob", "cell", "fax", "whatsapp", "call", "telefon", "telefono",
    "teléfono", "telefone", "téléphone", "tél", "handy", "simu", "тел", "телефон", "τηλ", "هاتف", "تلفن", "फोन",
    "电话", "電話", "手机", "โทร", "전화", "điện thoại", "☎", "📞", "✆",
)  # fmt: skip


@STREAMING.register("pii")
@dataclass(frozen=True)
class Pii(Stage):
    """Replace personal data by ``[EMAIL]``, ``[PHONE]`` and ``[IP]``; masking twice changes nothing more.

    The counts become ``num_pii_email``, ``num_pii_phone`` and ``num_pii_ip`` of the document and are summed in
    the ledger's notes. Addresses of private networks and of the machine itself (RFC 1918, loopback) stay.

    Args:
        max_masked: documents with more masks are address lists and are dropped; 0 keeps all.
    """

    max_masked: int = 0

    name: ClassVar[str] = "pii"
    reasons: ClassVar[dict[str, str]] = {"address_list": "more than max_masked addresses and numbers"}
    rewrites = True

    def edit(self, doc: Document) -> Verdict:
        """Mask a document, or drop one that is a list of addresses."""
        text, counts = mask(doc.text)
        if 0 < self.max_masked < sum(counts.values()):
            return Verdict("address_list")
        masked = {kind: count for kind, count in counts.items() if count}
        doc.meta |= {f"num_pii_{kind}": count for kind, count in masked.items()}
        return Verdict(text=text, notes={f"pii_{kind}": count for kind, count in masked.items()})


def mask(text: str) -> tuple[str, dict[str, int]]:
    """Return ``text`` with personal data masked, and how many of each kind there were."""
    counts = {"email": 0, "ip": 0, "phone": 0}
    if "@" in text:
        text, counts["email"] = _EMAIL.subn(EMAIL_MASK, text)

    def ip(match: re.Match[str]) -> str:
        if not _is_public(match[0]):
            return match[0]
        counts["ip"] += 1
        return IP_MASK

    def phone(match: re.Match[str]) -> str:
        if not _is_phone(match):
            return match[0]
        counts["phone"] += 1
        return PHONE_MASK

    if _maybe_private().search(text):
        if _MAYBE_IP.search(text):
            text = _IP.sub(ip, text)
        if _MAYBE_PHONE.search(text):
            text = _DIGIT_GROUPS.sub(phone, text)
    return text, counts


# Cheap checks without which the slower patterns cannot match.
_MAYBE_IP = re.compile(r"\d\.\d{1,3}\.\d|:[0-9a-fA-F]{0,4}:")
_MAYBE_PHONE = re.compile(r"\d[\d \u00a0.()/\-\u2010-\u2013]{5,}\d")


@cache
def _maybe_private() -> re.Pattern[str]:
    """Return a pattern that finds what either of the two finds, in a fifth of their time.

    Its first set lists digits one by one: a set without a class of characters is looked up in a bitmap.
    """
    digits = "".join(chr(point) for point in range(0x10000) if chr(point).isdecimal())
    ip, phone = _MAYBE_IP.pattern.split("|"), _MAYBE_PHONE.pattern
    return re.compile(
        rf"[:{digits}\U00010000-\U0010ffff](?:(?<=\d)(?:{ip[0][2:]}|{phone[2:]})|(?<=:){ip[1][1:]})"
    )


def _is_phone(match: re.Match[str]) -> bool:
    """Return whether groups of digits are a telephone number.

    International numbers (+ or 00 and a country code), numbers with an area code in parentheses and announced
    numbers are; bare groups are dates, prices and amounts more often.
    """
    text = match[0]
    if not _MIN_DIGITS <= sum(map(str.isdecimal, text)) <= _MAX_DIGITS:
        return False
    if (
        text[0] == "+"
        or _AREA_CODE.match(text)
        or (text.startswith("00") and text[2:3] not in ("0", ".", ""))
    ):
        return True
    before = match.string[max(0, match.start() - 20) : match.start()].lower().rstrip(" :：.\u00a0")
    return before.endswith(_PHONE_WORDS)


def _is_public(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_global
    except ValueError:
        return False

"""Text that templates of Wikipedia show in a sentence: units, quotations, names, dates, sums, words of other languages.

Templates are not expanded. Those of the commonest kinds are imitated here, under their names in several Wikipedias.
Sources: the templates' own documentation on en, fr, de, ru, ja and zh.wikipedia.org.
"""

import ast
import functools
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from xling.core.package_tables import load_table

BAR, SIGN = "\x06", "\x07"
"""What stands for ``|`` and ``=`` of a text while templates are read."""


@dataclass(frozen=True)
class Page:
    """The language and the date that templates of a page depend on.

    Attributes:
        lang: language code of the wiki.
        date: ISO 8601 time of the revision, or "".
    """

    lang: str = ""
    date: str = ""


NO_PAGE = Page()


class Arguments(list[str]):
    """The unnamed arguments of a template, those called ``1=``, ``2=``, ... among them; the others by name.

    Args:
        rest: what stands behind the name.
        has_any: whether a bar stands there.
    """

    def __init__(self, rest: str, has_any: bool = True) -> None:
        super().__init__()
        self.named: dict[str, str] = {}
        for part in rest.split("|") if has_any else ():
            key, sign, value = part.partition("=")
            if not sign:
                self.append(part.strip())
            elif (name := key.strip().lower()).isdecimal() and 0 < int(name[:4]) <= len(self) + 1:
                self[int(name) - 1 : int(name)] = [value.strip()]
            elif len(name) <= _MAX_NAME_CHARS:
                self.named[name] = value.strip()
            else:  # a sentence with an equals sign in it
                self.append(part.strip())

    def at(self, position: int) -> str:
        """Return argument ``position``, counted from 1, or from the end if it is negative; "" if it is missing."""
        return self[position - (position > 0)] if self and -len(self) <= position <= len(self) else ""

    def first_of(self, *names: str) -> str:
        """Return the first argument of some names that is there, or the first unnamed one."""
        return next((self.named[name] for name in names if self.named.get(name)), self.at(1))


_MAX_NAME_CHARS = 24


def text_of(name: str, arguments: Arguments, page: Page) -> str | None:
    """Return what a template shows; "" for one that shows nothing in a sentence, None for an unknown one.

    Args:
        name: in lower case with spaces.
    """
    if name in _CONSTANTS:
        return _CONSTANTS[name]
    if page.lang == "fr" and name in _FRENCH:
        return _FRENCH[name](arguments, page)
    if (position := _POSITIONS.get(name)) is not None:
        return arguments.at(position)
    if name in _CURRENCIES:
        return _CURRENCIES[name] + arguments.at(1)
    if render := _RENDERERS.get(name):
        return render(arguments, page)
    for prefix, position in _PREFIXES.items():
        if name.startswith(prefix):
            return arguments.at(position)
    if _SELF.fullmatch(name):
        return _ROMAN.sub(lambda number: number[0].upper(), name)
    return "" if _SILENT.match(name) else None


_TABLES = load_table(__package__, "wikitemplates.yaml")
_POSITIONS = {name: position for position, names in _TABLES["positions"].items() for name in names}
_PREFIXES: dict[str, int] = _TABLES["prefixes"]
_CONSTANTS: dict[str, str] = _TABLES["constants"]
_CURRENCIES: dict[str, str] = _TABLES["currencies"]
_RANGES: dict[str, str] = _TABLES["ranges"]
_UNITS: dict[str, str] = _TABLES["units"]
_WORDS: dict[str, str] = _TABLES["powers"]
_POWER = re.compile(r"e(\d\d?)(\S+)")
_SILENT = re.compile(rf"(?:{'|'.join(_TABLES['silent'])})\s*$")
# Ordinal numbers and centuries that are the name of a template in French and Romance Wikipedias.
_SELF = re.compile(r"\d{1,4}(?:er|re|e|ère|ème)|[ivxlc]+(?:er|re|e)(?: siècle.*)?|secolul.*|siglo [ivx]+")
_ROMAN = re.compile(r"\b[ivxlc]+(?=er\b|re\b|e\b|-|$)")
_SMALLER_UNITS = frozenset({"in", "oz", "lb", "ft", "min", "yd", "rd", "ch", "furlong", "chain"})


def _convert(arguments: Arguments, page: Page) -> str:
    """``{{convert|3|to|5|km|mi}}``: the numbers and the unit that stand first."""
    if not arguments:
        return ""
    shown, rest = arguments[0], arguments[1:]
    while len(rest) > 1 and rest[0].lower() in _RANGES:
        shown += _RANGES[rest[0].lower()] + rest[1]
        rest = rest[2:]
    if rest:
        shown += f" {_UNITS.get(rest[0]) or _POWER.sub(_thousands, rest[0])}" if rest[0] else ""
        while len(rest) > 2 and _is_number(rest[1]) and rest[2] in _SMALLER_UNITS:
            shown += f" {rest[1]} {rest[2]}"
            rest = rest[2:]
    return shown


def _thousands(power: re.Match[str]) -> str:
    """``e6km2``: million km2, in a multiple that has a word."""
    return f"{_WORDS.get(power[1], f'× 10^{power[1]}')} {_UNITS.get(power[2], power[2])}"


def _is_number(text: str) -> bool:
    return bool(re.fullmatch(r"[-+−]?[\d.,]+(?:/\d+)?", text))


def _quote(arguments: Arguments, page: Page) -> str:
    """A quotation of its own, between line breaks."""
    text = arguments.first_of(
        "text", "quote", "texte", "zitat", "citat", "cita", "content", "citation", "текст", "תוכן"
    )
    return f"\n{text}\n" if text else ""


_QUOTE_MARKS = {
    "fr": ("« ", " »"),
    "ru": ("«", "»"),
    "uk": ("«", "»"),
    **dict.fromkeys(("de", "bg", "cs"), ("„", "“")),
}


def _quoted(arguments: Arguments, page: Page) -> str:
    text = arguments.first_of("text", "zitat")
    opening, closing = _QUOTE_MARKS.get(page.lang, ("“", "”"))
    return f"{opening}{text}{closing}" if text else ""


def _val(arguments: Arguments, page: Page) -> str:
    named = arguments.named
    number, more = arguments.at(1), arguments.at(2)
    if more in _RANGES:
        number += _RANGES[more] + arguments.at(3)
    elif unit := "".join(arguments[1:3]):  # in Italian with its prefix
        number += f" ± {more.lstrip('±')}" if unit[-1] in ")0123456789" else f" {unit}"
    number += f" × 10^{named['e']}" if named.get("e") else ""
    unit = next((named[key] for key in ("u", "ul", "up", "upl") if named.get(key)), "")
    return f"{named.get('p', '')}{number}{named.get('s', '')}" + (f" {unit}" if unit else "")


def _fraction(arguments: Arguments, page: Page) -> str:
    whole, over, under = (["", "1", *arguments] if len(arguments) == 1 else ["", *arguments] if len(arguments) == 2
                          else [*arguments, "", "", ""])[:3]  # fmt: skip
    return f"{whole} {over}/{under}".strip() if over else whole


def _date(arguments: Arguments, page: Page, from_position: int = 1) -> str:
    """``{{start date|1998|5|4|df=y}}``: as it is written in English, else by its numbers."""
    parts = arguments[from_position - 1 :][:3]
    if not parts or not parts[0].isdecimal():
        return " ".join(parts)
    months = _MONTHS if page.lang in ("", "en", "simple") else ()
    year, month, day = (*parts, "", "")[:3]
    if month in _MONTHS:
        month = str(_MONTHS.index(month) + 1)
    if not month or not months or not (month.isdecimal() and 1 <= int(month[:3]) <= len(months)):
        return (
            "-".join(part.zfill(2) for part in parts if part)
            if month.isdecimal()
            else " ".join(filter(None, parts))
        )
    if not day:
        return f"{months[int(month) - 1]} {year}"
    first = arguments.named.get("df", arguments.named.get("mf", "no"))
    if "df" in arguments.named and first.lower() in ("y", "yes", "1", "true"):
        return f"{day.lstrip('0')} {months[int(month) - 1]} {year}"
    return f"{months[int(month) - 1]} {day.lstrip('0')}, {year}"


def _as_of(arguments: Arguments, page: Page) -> str:
    word = "since" if arguments.named.get("since") else "as of"
    shown = arguments.named.get("alt") or f"{word} {_date(arguments, page)}"
    return shown if arguments.named.get("lc") or "alt" in arguments.named else shown[0].upper() + shown[1:]


def _age(arguments: Arguments, page: Page) -> str | None:
    """Years between two dates; the second is that of the revision where it is left out."""
    numbers = [int(part) if part.isdecimal() else 0 for part in arguments[:6]]
    if len(numbers) < 4:
        numbers = [*numbers, 1, 1][:3] + [int(part) for part in page.date[:10].split("-") if part.isdecimal()]
    if len(numbers) != 6:
        return None
    years = numbers[3] - numbers[0] - (numbers[4:] < numbers[1:3])
    return str(years)


def _percentage(arguments: Arguments, page: Page) -> str | None:
    if len(arguments) < 2:
        return f"{arguments.at(1)}%" if arguments else None
    try:
        part, whole = (float(text.replace(",", "")) for text in arguments[:2])
        digits = int(arguments.at(3) or 0)
        return f"{100 * part / whole:.{min(max(digits, 0), 9)}f}%"
    except (ValueError, ZeroDivisionError):
        return None


def _name(arguments: Arguments, page: Page) -> str:
    """``{{sortname|Anna|Otieno}}``."""
    return " ".join(part for part in arguments[:2] if part)


def _link(arguments: Arguments, page: Page) -> str:
    """A link to a page of another Wikipedia: its label, or its name here."""
    return arguments.first_of("lt", "label", "display", "texte", "text", "fr", "عر", "نص", "jp")


def _second_or_first(arguments: Arguments, page: Page) -> str:
    return arguments.at(2) or arguments.at(1)


def _joined(arguments: Arguments, page: Page) -> str:
    return " ".join(filter(None, arguments))


def _chem(arguments: Arguments, page: Page) -> str:
    return "".join(arguments)


def _ship(arguments: Arguments, page: Page) -> str:
    return " ".join(filter(None, arguments[:2]))


def _chinese(arguments: Arguments, page: Page) -> str:
    return arguments.first_of("c", "t", "s", "hangul", "hanja", "kanji")


def _height(arguments: Arguments, page: Page) -> str:
    named = arguments.named
    return " ".join(f"{named[unit]} {unit}" for unit in ("m", "cm", "ft", "in") if named.get(unit)) or (
        f"{arguments.at(1)} m" if arguments else ""
    )


def _ordinal(arguments: Arguments, page: Page) -> str:
    number = arguments.at(1)
    teens = number[-2:] in ("11", "12", "13")
    return (
        number + ("th" if teens else {"1": "st", "2": "nd", "3": "rd"}.get(number[-1:], "th"))
        if number
        else ""
    )


def _country(arguments: Arguments, page: Page) -> str:
    """``{{flag|KEN}}``: the name of the country."""
    return country_names(page.lang).get(arguments.at(1)) or arguments.at(1)


@functools.cache
def country_names(lang: str) -> dict[str, str]:
    """Return the names of countries in a language, by the codes of ISO 3166 and the Olympics, and in lower case.

    ``countries.tsv`` has them from the Unicode CLDR; a language that it lacks has none.
    """
    assert __package__
    table = (files(__package__) / "countries.tsv").read_text(encoding="utf-8")
    codes, *rows = (line.split("\t") for line in table.splitlines())
    own = next((row for row in rows if row[0] == lang), codes[:1])
    named = [(code, name) for code, name in zip(codes[1:], own[1:], strict=False) if name]
    return {key: name for code, name in named for key in (*code.split(" "), name.lower())}


def _with(before: str, num_shown: int = 2) -> Callable[[Arguments, Page], str]:
    return lambda arguments, page: (
        f"{before}{'–'.join(filter(None, arguments[:num_shown]))}" if arguments else before.strip()
    )


def _currency(arguments: Arguments, page: Page) -> str:
    sign = _CURRENCIES.get((arguments.at(2) or arguments.named.get("type", "usd")).lower(), "")
    return (sign or "") + arguments.first_of("amount")


def _in_parentheses(arguments: Arguments, page: Page) -> str:
    return f" ({arguments.at(1)})" if arguments else ""


def _french_unit(arguments: Arguments, page: Page) -> str:
    """``{{unité|100|km|2}}``: 100 km2; numbers and units in turn, an exponent joined to its unit."""
    shown = ""
    for number, part in enumerate(arguments):
        before = arguments[number - 1]
        is_exponent = (
            number > 1 and part.lstrip("-").isdecimal() and not _is_number(before) and before not in _RANGES
        )
        shown += part if is_exponent or not shown else f" {part}"
    return shown


def _french_date(arguments: Arguments, page: Page) -> str:
    parts = [part for part in arguments[:3] if part]
    if len(parts) > 1 and parts[1].isdecimal() and 1 <= int(parts[1][:3]) <= 12:
        parts[1] = _FRENCH_MONTHS[int(parts[1]) - 1]
    return " ".join(parts)


def _date_from_day(arguments: Arguments, page: Page) -> str:
    """``{{fecha|3|5|1950}}``: the day first, as its numbers or words."""
    parts = [part for part in arguments[:3] if part]
    return (".".join if len(parts) > 1 and all(map(str.isdecimal, parts)) else " ".join)(parts)


def _french_incise(arguments: Arguments, page: Page) -> str:
    return f" – {arguments.at(1)}" + ("" if arguments.at(2) else " – ")


def _century(before: str, behind: str) -> Callable[[Arguments, Page], str]:
    return lambda arguments, page: (
        f"{before}{arguments.at(1)}{arguments.at(2) or ('er' if arguments.at(1) == 'I' else 'e')} siècle{behind}"
    )


_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
           "December")  # fmt: skip
_FRENCH_MONTHS = ("janvier", "février", "mars", "avril", "mai", "juin", "juillet", "août", "septembre", "octobre",
                  "novembre", "décembre")  # fmt: skip
_Renderer = Callable[[Arguments, Page], str | None]
_FRENCH: dict[str, _Renderer] = {
    "s": _century("", ""), "s-": _century("", ""), "-s": _century("", " av. J.-C."), "-s-": _century("", " av. J.-C."),
    "s2": _joined, "citation": _quoted, "guil": _quoted, "heure": lambda a,
    page: " h ".join(a[:2]) + " h" * (len(a) == 1),
    "mme": lambda a, page: f"Mme {a.at(1)}", "m.": lambda a, page: f"M. {a.at(1)}", "mlle": lambda a,
    page: f"Mlle {a.at(1)}",
    "dr": lambda a, page: f"Dr {a.at(1)}", "date": _french_date,
}  # fmt: skip
_FUNCTIONS: dict[str, _Renderer] = {
    "convert": _convert, "french_unit": _french_unit, "quote": _quote, "quoted": _quoted, "val": _val,
    "fraction": _fraction, "date": _date, "date_from_day": _date_from_day, "french_date": _french_date, "age": _age,
    "percentage": _percentage, "as_of": _as_of, "link": _link, "second_or_first": _second_or_first,
    "chinese": _chinese, "height": _height, "ordinal": _ordinal, "in_parentheses": _in_parentheses, "chem": _chem,
    "country": _country, "name": _name, "joined": _joined, "ship": _ship,
}  # fmt: skip
_RENDERERS: dict[str, _Renderer] = {
    **{name: _FUNCTIONS[kind] for kind, names in _TABLES["called"].items() for name in names},
    **{name: _with(before) for name, before in _TABLES["before_two"].items()},
    **{name: _with(before, 1) for name, before in _TABLES["before_one"].items()},
    "e": lambda a, page: f" × 10^{a[0]}" if a else "e",
    "secolo": lambda a, page: f"{a.at(1)} secolo",
    "currency": _currency,
    "incise": _french_incise,
}


_OPERATIONS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Mod: operator.mod,
    ast.USub: operator.neg, ast.UAdd: operator.pos,
}  # fmt: skip
_EXPRESSION = re.compile(r"[\d\s.+*/()-]{1,200}")


def function_of(content: str) -> str | None:
    """Return what a parser function gives: formatnum, case, sums; None for another one.

    Args:
        content: of the braces, for example ``formatnum:1200``.
    """
    name, sign, value = content.partition(":")
    name = name.strip().lower()
    if not sign:
        return None
    if name == "formatnum":
        return value.partition("|")[0].strip()
    if name in ("lc", "lcfirst", "uc", "ucfirst"):
        text = value.strip()
        return {"lc": text.lower(), "uc": text.upper(), "lcfirst": text[:1].lower() + text[1:],
                "ucfirst": text[:1].upper() + text[1:]}[name]  # fmt: skip
    if name == "#expr":
        return _value_of(value)
    return None


def _value_of(expression: str) -> str | None:
    """Return the value of a sum, None for what is none."""
    expression, _, digits = expression.partition("round")
    if not _EXPRESSION.fullmatch(expression.strip()):
        return None
    try:
        value = _computed(ast.parse(expression.strip(), mode="eval").body)
        value = round(value, int(digits)) if digits.strip() else value
    except (SyntaxError, ValueError, ArithmeticError, TypeError, RecursionError, MemoryError):
        return None
    return f"{value:.10g}" if abs(value) < 1e10 else f"{value:.0f}"


def _computed(node: ast.expr) -> float:
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        return float(_OPERATIONS[type(node.op)](_computed(node.left), _computed(node.right)))
    if isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATIONS:
        return float(_OPERATIONS[type(node.op)](_computed(node.operand)))
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return float(node.value)
    raise ValueError("no sum")

"""A picture of one suite: a dot per language, joined by a line to the control's dot."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

from eval import tables
from eval.results import CONTROLS, Score
from eval.tables import Column, Values

LEFT, TOP, STEP, WIDTH, BELOW = 56, 18, 22, 480, 22


def dots(suite: str, scores: Sequence[Score]) -> str:
    """The main metric of a suite as an SVG figure: the first system beside its first control."""
    table = {c: v for c, v in tables.by_column(scores).items() if c.suite == suite}
    columns = tables.sorted_columns(table)
    columns = [c for c in columns if c.metric == columns[0].metric]
    main = columns[0]
    beside = next((c for c in columns[1:] if c.system in CONTROLS), None)
    langs = tables.languages_of(table, suite)
    height = TOP + STEP * len(langs) + BELOW
    parts = [_grid(tick, height) for tick in (0, 25, 50, 75, 100)]
    for row, lang in enumerate(langs):
        parts.append(_row(lang, TOP + STEP * row + STEP / 2 - 4, table, main, beside))
    legend = f'<span style="color:var(--main)">&#9679;</span> {html.escape(main.system)}'
    if beside:
        control = html.escape(beside.system)
        legend += f' &nbsp; <span style="color:var(--base)">&#9675;</span> {control} (control)'
    label = html.escape(
        f"{suite} {main.metric}, {main.system} beside {beside.system if beside else 'nothing'}"
    )
    return (
        f"<figure><figcaption><b>{html.escape(suite)}</b>, {html.escape(main.metric)}: {legend}</figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}" font-size="12" '
        f'font-family="system-ui, sans-serif">{"".join(parts)}</svg></figure>'
    )


def _x(value: float) -> float:
    """Horizontal place of a score, in SVG units."""
    return LEFT + (WIDTH - LEFT - 36) * min(max(value, 0.0), 100.0) / 100


def _grid(tick: int, height: int) -> str:
    x = f"{_x(tick):.0f}"
    return (
        f'<line x1="{x}" x2="{x}" y1="{TOP - 6}" y2="{height - 20}" stroke="#d5dae0"/>'
        f'<text x="{x}" y="{height - 6}" text-anchor="middle" fill="#5b6470">{tick}</text>'
    )


def _row(lang: str, y: float, table: Mapping[Column, Values], main: Column, beside: Column | None) -> str:
    parts = [f'<text x="4" y="{y + 4:.0f}" fill="#1b1f24">{html.escape(lang)}</text>']
    value = _mean(table[main], lang)
    control = _mean(table[beside], lang) if beside else None
    if value is not None and control is not None:
        ends = f'x1="{_x(control):.1f}" x2="{_x(value):.1f}" y1="{y:.0f}" y2="{y:.0f}"'
        parts.append(f'<line {ends} stroke="#9aa5b1" stroke-width="2"/>')
    if control is not None:
        place = f'cx="{_x(control):.1f}" cy="{y:.0f}"'
        parts.append(f'<circle {place} r="4.5" fill="#fff" stroke="#b4540a" stroke-width="2"/>')
    if value is not None:
        place = f'cx="{_x(value):.1f}" cy="{y:.0f}"'
        parts.append(f'<circle {place} r="5" fill="#0b5cad"/>')
        right = max(_x(value), _x(control or 0)) + 9
        parts.append(f'<text x="{right:.1f}" y="{y + 4:.0f}" fill="#1b1f24">{value:.1f}</text>')
    return "".join(parts)


def _mean(values: Values, lang: str) -> float | None:
    return tables.over_seeds(list(values[lang].values())).value if lang in values else None

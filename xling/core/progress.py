"""Progress: a bar on a terminal, one line a minute in a log."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TextIO

from tqdm import tqdm

from xling.core import signals
from xling.core.output.command_result import visible

SECONDS_BETWEEN_LINES = 60.0


class Progress:
    """Count finished work and show it with its rate and the time left; a context manager.

    Args:
        task: what is being done, for example ``binarize sw``.
        total: how many units there are; None when unknown.
        unit: the unit, for example ``docs`` or ``tokens``.
        stream: where to show it; standard error by default.
    """

    def __init__(
        self, task: str, total: int | None = None, unit: str = "it", stream: TextIO | None = None
    ) -> None:
        self.task, self.total, self.unit, self.done = task, total, unit, 0
        self.stream = stream or sys.stderr
        self._started_at = self._printed_at = time.monotonic()
        self._printed_count = -1
        self._bar = (
            tqdm(total=total, desc=task, unit=f" {unit}", unit_scale=True, file=self.stream, leave=False)
            if self.stream.isatty()
            else None
        )

    def update(self, count: int = 1, note: str = "") -> None:
        """Add ``count`` units; ``note`` is shown after the numbers, for example a loss."""
        self.done += count
        signals.beat(self.done, self.total, self.unit, note=note or None)
        if self._bar is not None:
            if note:
                self._bar.set_postfix_str(visible(note), refresh=False)
            self._bar.update(count)
        elif time.monotonic() - self._printed_at >= SECONDS_BETWEEN_LINES:
            self._print_line(note)

    def _print_line(self, note: str = "") -> None:
        self._printed_at, self._printed_count = time.monotonic(), self.done
        elapsed = max(self._printed_at - self._started_at, 1e-9)
        rate = self.done / elapsed
        of_total = f" of {self.total:,}" if self.total else ""
        time_left = f", {(self.total - self.done) / rate:.0f} s left" if self.total and rate > 0 else ""
        note_text = f", {note}" if note else ""
        rate_text = f"{rate:,.0f}" if rate >= 1 or rate == 0 else f"{rate:.2g}"
        text = f"{self.task}: {self.done:,}{of_total} {self.unit}, {rate_text}/s, {elapsed:.0f} s{time_left}{note_text}"
        print(visible(text), file=self.stream, flush=True)

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()
        if kind is None and self._printed_count < self.done:  # else the last line says it already
            self._print_line()


def print_above_bar(text: str) -> None:
    """Print a line on standard error, above the progress bar if one is shown."""
    tqdm.write(visible(text), file=sys.stderr)
    sys.stderr.flush()

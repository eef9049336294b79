"""x"""

from pathlib import Path
from typing import Any

HTML = "card.html"


def write(folder: Path, stats: dict[str, Any]) -> None:
    """X."""
    (folder / HTML).write_text("")

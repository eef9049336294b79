"""Hooks of MkDocs: a page for every notebook, and links that lead to it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Put a page in the place of every notebook."""
    for file in list(files):
        if file.src_uri.endswith(".ipynb"):
            page = file.src_uri.removesuffix(".ipynb") + ".md"
            files.append(File.generated(config, page, content=page_of(Path(str(file.abs_src_path)))))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Let links to notebooks lead to their pages."""
    return re.sub(r"(\]\([^)\s]+)\.ipynb\)", r"\1.md)", markdown)


def page_of(path: Path) -> str:
    """Write a notebook as Markdown: text, code and the text of its outputs."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    pieces = []
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            pieces.append(source)
        elif source.startswith("%%bash"):
            pieces.append(f"```sh\n{source.partition(chr(10))[2]}\n```")
        else:
            pieces.append(f"```python\n{source}\n```")
        output = "".join(text_of(output) for output in cell.get("outputs", []))
        if output.strip():
            pieces.append(f"```text\n{output.rstrip()}\n```")
    return "\n\n".join(pieces)


def text_of(output: dict[str, Any]) -> str:
    """Give the text of a cell's output; progress on standard error is left out."""
    if output.get("name") == "stderr":
        return ""
    return "".join(output.get("text") or output.get("data", {}).get("text/plain") or [])

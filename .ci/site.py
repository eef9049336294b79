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
    for file in [file for file in files if file.src_uri.endswith(".ipynb")]:
        content = page_of(Path(str(file.abs_src_path)))
        files.append(File.generated(config, file.src_uri.removesuffix(".ipynb") + ".md", content=content))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Let links to notebooks lead to their pages."""
    return re.sub(r"(\]\([^)\s]+)\.ipynb\)", r"\1.md)", markdown)


def page_of(path: Path) -> str:
    """Write a notebook as Markdown: text, code and the text of its outputs, without what is on standard error."""
    pieces = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code":
            kind, source = (
                ("sh", source.partition("\n")[2]) if source.startswith("%%bash") else ("python", source)
            )
            source = f"```{kind}\n{source}\n```"
        outputs = [output for output in cell.get("outputs", []) if output.get("name") != "stderr"]
        texts = [o.get("text") or o.get("data", {}).get("text/plain") or [] for o in outputs]
        said = "".join(map("".join, texts)).rstrip()
        pieces += [source, f"```text\n{said}\n```"] if said else [source]
    return "\n\n".join(pieces)

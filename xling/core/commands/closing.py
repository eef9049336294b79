"""The closing line of a command: what was made, where, how long it took, and the next command."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

from xling.core import progress
from xling.core.output import manifest
from xling.core.output.command_result import tell

_MAX_NAMED = 6
NEXT: dict[str, str] = {
    "toyworld": "xling corpus mono lang={lang} source=text:{out}/mono/{lang}.txt out=runs/{lang}",
    "corpus mono": "xling vocab {corpora} out=runs/vocab",
    "corpus parallel": "xling encoder data={out} langs={langs} out=runs/encoder",
    "corpus nway": "xling pretrain static data={out} out=runs/static",
    "vocab": "xling binarize vocab={out} {corpora} out=runs/shards",
    "binarize": "xling pretrain data={out} out=runs/model",
    **dict.fromkeys(
        ("pretrain", "pretrain static", "import hf", "import fairseq", "import xlm"),
        "xling eval SUITE checkpoint={out} out=runs/eval",
    ),
    "finetune": "xling predict {out} FILE lang=LANG",
    **dict.fromkeys(("finetune mt", "umt"), "xling translate {out} src=SRC tgt=TGT < FILE"),
    **dict.fromkeys(("eval", "analyse"), "xling report {out} out=runs/report"),
    "export hf": "xling eval SUITE checkpoint=hf:{out} out=runs/eval",
    **dict.fromkeys(("trim", "quantize"), "xling export hf {out} runs/hf"),
}
"""Stage -> the command that most people run next; words in capitals are to be filled in."""
PRINTED: dict[str, str] = {
    "doctor": "xling quickstart",
    "predict": "xling eval KIND test.{lang}=FILE checkpoint={checkpoint} systems=pretrained out=runs/eval",
}
"""The same of stages that print their answer or write one file, in place of a folder with a manifest."""


def output_of(stage: str, settings: Mapping[str, Any]) -> Path | None:
    """Return the folder that a stage publishes for its settings, None if it only prints."""
    out, lang = settings.get("out", ""), settings.get("lang", "")
    if stage == "corpus mono" and not out:
        out = f"runs/mono/{lang}" if "," not in lang else "runs/mono"
    return Path(out) if out else None


def state_of(stage: str, settings: Mapping[str, Any]) -> bytes:
    """Return what tells one publication of a stage's output from another; empty where nothing is published."""
    folder = _published(path) if (path := output_of(stage, settings)) else None
    return (folder / manifest.FILE_NAME).read_bytes() if folder else b""


def _published(out: Path) -> Path | None:
    """Return the folder with the manifest: the output, the tables of an evaluation, or the overview of languages."""
    return next((path for path in (out, out / "tables", out / "overview") if manifest.stage_of(path)), None)


def closing_line(
    stage: str, settings: Mapping[str, Any], before: bytes, seconds: float, following: str = ""
) -> str:
    """Return the closing line of a stage; empty for one that has published nothing.

    Args:
        before: `state_of` the output before the run.
        following: the next command, where it is not that of the stage.
    """
    out, after = output_of(stage, settings), state_of(stage, settings)
    following = following or next_command(stage, settings, out)
    then = f"; next: {following}" if following else ""
    if stage in PRINTED:
        what = f"made {out} ({readable_size(out.stat().st_size)})" if out else "done"
        return f"xling {stage}: {what} in {duration(seconds)}{then}"
    if out is None or not after:
        return ""
    if after == before:
        return f"xling {stage}: {out} was finished already, nothing was to do{then}"
    files = json.loads(after)["files"]
    size = sum(entry["bytes"] for entry in files.values())
    what = f"{len(files)} file{'s' * (len(files) != 1)}, {readable_size(size)}"
    return f"xling {stage}: made {out} ({what}) in {duration(seconds)}{then}"


def note_pipeline_end(
    name: str,
    steps: Sequence[tuple[str, Mapping[str, Any]]],
    before: list[bytes],
    seconds: float,
    following: str,
) -> None:
    """Keep the closing line of a pipeline: the folder of its outputs and what lies in it.

    One without a folder for all of its outputs ends with the line of its last step.

    Args:
        name: the words that run it, without ``xling``.
        steps: the stage and the settings of each step.
        before: `state_of` the output of each step before the run.
    """
    outs = [out for step in steps if (out := output_of(*step))]
    root = Path(os.path.commonpath([out.absolute() for out in outs])) if len(outs) > 1 else Path.cwd()
    if root in (Path.cwd(), *Path.cwd().parents) or [state_of(*step) for step in steps] == before:
        note_end(*steps[-1], before[-1], seconds, following)
    elif not progress.is_quiet():
        following = following or next_command(*steps[-1], outs[-1])
        names = [str(out.absolute().relative_to(root)) for out in outs]
        what = ", ".join(names) if len(names) <= _MAX_NAMED else f"{len(names)} outputs"
        shown = root.relative_to(Path.cwd()) if root.is_relative_to(Path.cwd()) else root
        then = f"; next: {following}" if following else ""
        _lines.append(f"xling {name}: made {shown} ({what}) in {duration(seconds)}{then}")


_lines: list[str] = []


def note_end(
    stage: str, settings: Mapping[str, Any], before: bytes, seconds: float, following: str = ""
) -> None:
    """Keep the closing line of a stage until its answer is printed; arguments as of `closing_line`."""
    if not progress.is_quiet() and (line := closing_line(stage, settings, before, seconds, following)):
        _lines.append(line)


def tell_end() -> None:
    """Print the closing line, if there is one, on standard error."""
    while _lines:
        tell(_lines.pop(0))


def next_command(stage: str, settings: Mapping[str, Any], out: Path | None) -> str:
    """Return the command that most people run after a stage, with the names of this run in it; "" for none."""
    values = {name: quote(str(settings.get(name, ""))) for name in ("lang", "checkpoint", "pair")}
    values |= {"out": quote(str(out)), "langs": values["pair"].replace("-", ",")}
    if stage == "toyworld":
        values["lang"] = settings["langs"][-1]
    elif stage == "corpus mono":
        codes = settings["lang"].split(",")
        folders = {code: out / code if len(codes) > 1 else out for code in codes}
        values["corpora"] = " ".join(f"corpora.{code}={quote(str(path))}" for code, path in folders.items())
    elif stage == "vocab":
        values["corpora"] = " ".join(
            f"corpora.{lang}={quote(','.join(paths))}" for lang, paths in settings["corpora"].items()
        )
    several = stage == "finetune" and "," in settings["suite"]
    return (NEXT | PRINTED).get(stage, "").format(**values) + several * " head=SUITE"


def duration(seconds: float) -> str:
    """Return a duration as people say it: ``0.4 s``, ``31 s``, ``4 min 5 s``, ``3 h 2 min``."""
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    if whole >= 60:
        return f"{whole // 60} min {whole % 60} s"
    return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"


def readable_size(num_bytes: float) -> str:
    """Return a size as people say it: ``812 B``, ``1.3 MB``."""
    units = ["B", "kB", "MB", "GB", "TB"]
    while num_bytes >= 1000 and len(units) > 1:
        num_bytes /= 1000
        units.pop(0)
    digits = 1 if num_bytes < 10 and units[0] != "B" else 0
    return f"{num_bytes:,.{digits}f} {units[0]}"

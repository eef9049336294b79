"""Sealing of a result in one file, and verification by recomputing every digit.

``xling eval seal`` and ``eval verify``.

The file holds the answers, the digests of the rows that they answer (files; ids, fields and labels), the
models' digests, the scores with intervals and signatures, the versions of the software and the command.
`verify` scores the answers against the rows of another data folder and compares everything. It cannot know
whether a model gave the answers: invented answers can be sealed too.
"""

from __future__ import annotations

import hashlib
import json
import platform
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from xling.core.commands.inputs import check_new_file
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.output.command_result import Answer
from xling.eval.rows.suite import data_folder, load, suites
from xling.eval.scores import predictions
from xling.eval.scores.predictions import Origin
from xling.eval.tables import publish

FORMAT = "xling-seal 1"
PACKAGES = ("xling", "numpy", "polars", "sacrebleu", "seqeval", "rouge-score")


@dataclass(frozen=True)
class SealConfig:
    """Settings of ``xling eval seal``.

    Args:
        run: folder of a run with its predictions.
        out: file to write; an existing one is not replaced.
        data: folder of the suites' files; default: what XLING_DATA names.
    """

    run: Path
    out: Path
    data: Path | None = None


@dataclass(frozen=True)
class VerifyConfig:
    """Settings of ``xling eval verify``.

    Args:
        file: file written by ``xling eval seal``.
        data: folder of the suites' files; default: what XLING_DATA names.
    """

    file: Path
    data: Path | None = None


def seal(cfg: SealConfig) -> Answer:
    """Write the sealed file of a run.

    Raises:
        UserError: there are no predictions, they cannot be scored, or the file exists.
    """
    check_new_file(cfg.out)
    data = predictions.data_for(cfg.data, cfg.run)
    files = predictions.files(cfg.run / "predictions")
    tables = cfg.run / "tables"
    made_by = (
        manifest.read(tables).counts.get("made_by", {}) if (tables / manifest.FILE_NAME).is_file() else {}
    )
    content = {
        "format": FORMAT,
        "versions": _versions(),
        "made_by": made_by,
        "answers": [_answers_of_file(path, data) for path in files],
        **_recompute(files, data),
    }
    sealed = {**content, "digest": digest(content)}
    manifest.write_atomic(cfg.out, json.dumps(sealed, ensure_ascii=False, indent=0, sort_keys=True) + "\n")
    return Answer(
        f"{len(files)} files of answers, {len(sealed['scores'])} scores: {cfg.out}",
        {"digest": sealed["digest"]},
    )


def verify(cfg: VerifyConfig) -> Answer:
    """Compute a sealed result again.

    Raises:
        UserError: naming the first thing that is not as it was sealed.
    """
    sealed = _read(cfg.file)
    data = data_folder(cfg.data)
    with tempfile.TemporaryDirectory() as folder:
        files = [_write_answers(cfg.file, part, Path(folder), data) for part in sealed["answers"]]
        if len(set(files)) < len(files):
            raise _format_error(
                cfg.file, "the same answers are there twice", "one file of answers per column and language"
            )
        recomputed = json.loads(json.dumps(_recompute(sorted(files), data)))
    for name in ("scores", "averages"):
        _compare(cfg.file, name, sealed[name], recomputed[name])
    now = _versions()
    other_versions = [
        f"{x} {sealed['versions'].get(x)} then, {now[x]} now"
        for x in now
        if sealed["versions"].get(x) != now[x]
    ]
    said = (
        f"{cfg.file}: {len(files)} files of answers, {len(sealed['scores'])} scores, all as they were sealed"
    )
    return Answer(
        "\n".join([said, *(f"  {line}" for line in other_versions)]),
        {"digest": sealed["digest"], "versions": other_versions},
    )


def digest(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of everything in a sealed file except the digest itself."""
    rest = {name: value for name, value in content.items() if name != "digest"}
    return hashlib.sha256(
        json.dumps(rest, ensure_ascii=False, sort_keys=True).encode("utf-8", "surrogatepass")
    ).hexdigest()


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "none"
    return versions


def _answers_of_file(path: Path, data: Path) -> dict[str, Any]:
    origin = predictions.read_origin(path)
    rows = load(suites()[origin.suite], origin.lang, origin.split, data)
    given = predictions.read(path, rows)
    return {
        "origin": asdict(origin),
        "gold": _gold_digest(origin, data),
        "answers": [[row.id, answer] for row, answer in zip(rows, given, strict=True)],
    }


def _gold_digest(origin: Origin, data: Path) -> str:
    """Return the SHA-256 of ids, fields and labels of rows, whatever files they are in."""
    rows = load(suites()[origin.suite], origin.lang, origin.split, data)
    parts = [
        json.dumps([row.id, dict(row.fields), row.label], ensure_ascii=False, sort_keys=True) for row in rows
    ]
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _recompute(files: list[Path], data: Path) -> dict[str, Any]:
    """Return scores and averages of files of predictions, as JSON holds them."""
    publish.check_columns([predictions.read_origin(path) for path in files])
    answered = publish.score_files(files, data)
    averages = publish.Averages(answered)
    scores = [score for score, _ in answered]
    publish.table_of(publish.TableConfig(), (), scores, averages, data)  # asks for the averages
    return {
        "scores": [asdict(s) for s in scores],
        "averages": [asdict(a) for a in averages.intervals.values()],
    }


def _read(path: Path) -> dict[str, Any]:
    """Read a sealed file and verify its digest."""
    if not path.is_file():
        raise UserError(f"no sealed result at {path}", fix="xling eval seal RUN out=FILE writes one")
    try:
        sealed = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise _format_error(path, f"it is not JSON: {error}", "the file as it was sealed") from None
    if not isinstance(sealed, dict) or sealed.get("format") != FORMAT:
        raise _format_error(path, "it is not a sealed result", f'an object with "format": "{FORMAT}"')
    if sealed.get("digest") != (actual := digest(sealed)):
        raise _format_error(
            path, f"its content has digest {actual[:12]}, not {str(sealed.get('digest'))[:12]}", "no change"
        )
    wanted = {"versions": dict, "made_by": dict, "answers": list, "scores": list, "averages": list}
    for name, kind in wanted.items():
        if not isinstance(sealed.get(name), kind):
            raise _format_error(path, f"it has no {name}", ", ".join(wanted))
    return sealed


def _write_answers(file: Path, sealed_file: Any, folder: Path, data: Path) -> Path:
    """Return a file of predictions with the answers of a sealed one."""
    try:
        origin = Origin(**sealed_file["origin"])
        answers = [(str(name), answer) for name, answer in sealed_file["answers"]]
        gold = sealed_file["gold"]
    except (TypeError, KeyError, ValueError) as error:
        raise _format_error(
            file, f"answers cannot be read: {type(error).__name__} {error}", "origin, gold, answers"
        ) from None
    wrong = [f.name for f in fields(Origin) if type(getattr(origin, f.name)).__name__ != f.type]
    if wrong or any(
        "/" in sealed_file or sealed_file.startswith(".")
        for sealed_file in (origin.system, origin.lang, origin.split)
    ):
        raise _format_error(file, f"origin {sealed_file['origin']}", "the fields of an origin")
    rows = load(suites()[origin.suite], origin.lang, origin.split, data)
    file_name = f"{origin.suite}/{origin.lang}/{origin.split}, {origin.system}"
    if gold != (now := _gold_digest(origin, data)):
        raise _format_error(
            file,
            f"{file_name}: the rows in {data} have digest {now[:12]}, those answered {gold[:12]}",
            "the same rows",
        )
    if [name for name, _ in answers] != [row.id for row in rows]:
        raise _format_error(
            file,
            f"{file_name}: the answers are to other rows",
            f"{len(rows)} answers in the order of the rows",
        )
    return predictions.write(folder, origin, rows, [answer for _, answer in answers])


def _compare(file: Path, name: str, sealed: list[Any], recomputed: list[Any]) -> None:
    """Refuse numbers that are not those computed again."""
    if len(sealed) != len(recomputed):
        raise _format_error(
            file, f"it has {len(sealed)} {name}, the answers give {len(recomputed)}", "the same"
        )
    for position, (sealed_value, recomputed_value) in enumerate(zip(sealed, recomputed, strict=True)):
        if sealed_value != recomputed_value:
            changed = [
                k
                for k in recomputed_value
                if not isinstance(sealed_value, dict) or sealed_value.get(k) != recomputed_value[k]
            ]
            message = ", ".join(
                f"{k} {sealed_value.get(k) if isinstance(sealed_value, dict) else sealed_value!r}, "
                f"computed {recomputed_value[k]}"
                for k in changed
            )
            label = "/".join(str(recomputed_value[k]) for k in ("suite", "metric", "system"))
            raise _format_error(
                file, f"{name} {position}, {label}: {message or 'more than a score has'}", "every digit equal"
            )


def _format_error(file: Path, problem: str, valid: str) -> UserError:
    return UserError(
        f"{file} is refused: {problem}", valid, "ask for the file as it was sealed, and for its data"
    )

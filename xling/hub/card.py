"""The model card, written only from the manifests of a model and of its ancestors."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.output.answer import visible
from xling.data.symbols import Symbols
from xling.pages import tabular

_CARD, _STATS = "card.md", "stats.json"  # files of a corpus
_MOST_INPUTS = 20  # with more, a table has a line for each folder
_LIMITS = (
    "Text in another language or script than those above was not seen.",
    "The tokenizer gives the ids of the training, unnormalised text included; `<mask>`, `<s>` and the other "
    "specials written in a text are read as specials. Where two segmentations have the same score up to rounding, "
    "an older vocabulary may be segmented differently.",
    "Licences are those of the corpora above. Of text without a data card they are not known here.",
)
_FOREIGN = "It was initialised from a model trained by others, whose licence and limits also apply."


def write(
    directory: Path,
    settings: dict[str, Any],
    scores: Sequence[Path] = (),
    symbols: Symbols | None = None,
    usage: str = "",
) -> str:
    """Write the card of a model in Markdown, with the front matter that the Hugging Face Hub reads.

    Args:
        directory: published model.
        settings: config.json of the export.
        scores: ``scores.json`` files.
        symbols: symbols of a model with a decoder.
        usage: example of use; by default one that loads the class of ``settings``.

    Raises:
        UserError: a file does not contain scores.
    """
    example = usage or _usage(settings["architectures"][0], symbols)
    return compose(directory, _shape(settings), example, _LIMITS, scores)


def compose(
    directory: Path, shape: str, usage: str, limits: Sequence[str], scores: Sequence[Path] = ()
) -> str:
    """Compose a card from what is said of a model and from the manifests.

    Args:
        directory: published model.
        shape: sentence about its class and size.
        usage: example of use, in Markdown.
        limits: sentences about what it cannot do.
        scores: ``scores.json`` files.

    Raises:
        UserError: a file does not contain scores.
    """
    chain = list(ancestry(directory))
    foreign = any(record.stage.startswith("import") for record in chain)
    parts = [
        _front(_langs(chain)),
        f"# {_cell(directory.name)}",
        f"{shape} Trained with xling{''.join(f' {m.code_version}' for m in chain[:1])}.",
        usage,
        _objectives(chain),
        *(_stage(m) for m in chain),
        _corpora(chain),
        _scores(scores),
        "## Limits\n\n" + "\n".join(f"- {line}" for line in (*limits, *([_FOREIGN] if foreign else []))),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _langs(chain: Sequence[manifest.Manifest]) -> list[str]:
    """Return the languages of a model: those that it names, else those of its aligned text."""
    named: list[str] = next((m.counts["langs"] for m in chain if m.counts.get("langs")), [])
    return named or sorted({lang for m in chain for langs in _aligned(m.counts).values() for lang in langs})


def _aligned(counts: dict[str, Any]) -> dict[str, dict[str, int]]:
    """Return source -> language -> rows, if the counts are those of `xling corpus nway`."""
    rows = counts.get("rows")
    return rows if isinstance(rows, dict) else {}


def _objectives(chain: Sequence[manifest.Manifest]) -> str:
    """Describe the training data: the objectives of every pre-training, the text that each read, and how often."""
    parts = []
    for record in chain:
        if not isinstance(record.config.get("objectives"), dict):
            continue
        mix = "; ".join(
            _cell(name + "".join(f", {key} {value}" for key, value in settings.items()))
            for name, settings in record.config["objectives"].items()
        )
        seen = record.counts.get("seen", {})
        rows = [
            [_cell(name), f"{n['there']:,}", f"{n['read']:,}", f"{n['read'] / max(n['there'], 1):.2f}"]
            for name, n in seen.get("tokens", {}).items()
        ]
        head = ("text", "tokens available", "tokens read", "epochs")
        updates = f"{record.counts['updates']:,} updates" if "updates" in record.counts else ""
        parts += [f"{updates}, objectives: {mix}.", _table(head, rows, 3) if rows else ""]
    return "\n\n".join(["## Training", *(part for part in parts if part)]) if parts else ""


def _corpora(chain: Sequence[manifest.Manifest]) -> str:
    """List the corpora that are still available: digests of their data cards and licences of their sources."""
    folders = {
        folder: None
        for record in chain
        for name in record.inputs
        for folder in (Path(name), *list(Path(name).parents)[:2])
        if (folder / _CARD).is_file() and (folder / _STATS).is_file()
    }
    rows = []
    for folder in folders:
        stats = json.loads((folder / _STATS).read_text(encoding="utf-8"))
        terms = "; ".join(dict.fromkeys(str(source["licence"]) for source in stats.get("sources", [])))
        digest = manifest.sha256(folder / _CARD)[:16]
        rows.append([_code(folder.name), f"`{digest}`", _cell(terms) or "not stated"])
    if not rows:
        return ""
    head = ("corpus", "SHA-256 of its data card", "licences of its sources")
    return "## Corpora\n\n" + _table(head, rows)


def ancestry(directory: Path) -> Iterable[manifest.Manifest]:
    """Return the manifest of a model, then those of its ancestors that are still available, nearest first."""
    waiting, seen = [directory], set()
    while waiting:
        path = waiting.pop(0)
        if path in seen or not (path / manifest.FILE_NAME).is_file():
            continue
        seen.add(path)
        record = manifest.read(path)
        yield record
        waiting += [Path(name) for name in record.inputs]


def _cell(value: object) -> str:
    """Return a text of others for Markdown: on one line, inside one cell, and without an HTML element."""
    text = " ".join(visible(str(value)).split()).replace("|", "\\|").replace("`", "\\`")
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], numbers: int = 0) -> str:
    """Return a table of cells that are Markdown; the last columns hold numbers."""
    is_number = [column >= len(head) - numbers for column in range(len(head))]
    return "\n".join(tabular.grid([head, *rows], is_number))


def _code(value: object) -> str:
    """Return a text of others as code that ends where it should."""
    text = " ".join(visible(str(value)).split()).replace("`", "'").replace("|", "\\|")
    return f"`{text}`"


def _front(langs: Sequence[str]) -> str:
    known = dict.fromkeys(code for code in (lang.split("_")[0] for lang in langs) if code.isalpha())
    codes = "".join(f"\n- {json.dumps(code)}" for code in known)
    language = f"\nlanguage:{codes}" if codes else ""
    return f"---\nlibrary_name: transformers{language}\ntags:\n- xling\n- multilingual\n---"


def _shape(settings: dict[str, Any]) -> str:
    name, size = settings["architectures"][0], settings["vocab_size"]
    if "num_decoder_layers" in settings:
        return (
            f"An encoder-decoder of `transformers` class `{name}`: {settings['num_layers']} and "
            f"{settings['num_decoder_layers']} layers of {settings['d_model']}, {size:,} ids, relative positions."
        )
    if "d_model" in settings:
        return (
            f"An encoder-decoder of `transformers` class `{name}`: {settings['encoder_layers']} and "
            f"{settings['decoder_layers']} layers of {settings['d_model']}, {size:,} ids, at most "
            f"{settings['max_position_embeddings']} tokens on either side."
        )
    return (
        f"An encoder of `transformers` class `{name}`: {settings['num_hidden_layers']} layers of "
        f"{settings['hidden_size']}, {size:,} pieces, at most {settings['max_position_embeddings'] - 2} tokens."
    )


def _usage(name: str, symbols: Symbols | None) -> str:
    if symbols is not None:
        lang = ', "[SOURCE]"' if symbols.source_lang else ""
        comment = "  # the language of the text" if symbols.source_lang else ""
        start = "forced_bos_token_id" if symbols.lang_first else "decoder_start_token_id"
        return (
            "```python\n"
            f"from transformers import AutoTokenizer, {name}\n\n"
            'tokenizer = AutoTokenizer.from_pretrained("DIR")\n'
            f'model = {name}.from_pretrained("DIR")\n'
            f'batch = tokenizer("a text"{lang}, return_tensors="pt"){comment}\n'
            'wanted = tokenizer.convert_tokens_to_ids("[TARGET]")  # also generation_config.json: lang_to_id\n'
            f"outputs = model.generate(**batch, {start}=wanted)\n"
            "print(tokenizer.batch_decode(outputs, skip_special_tokens=True))\n"
            "```"
        )
    return (
        "```python\n"
        f"from transformers import AutoTokenizer, {name}\n\n"
        'tokenizer = AutoTokenizer.from_pretrained("DIR")\n'
        f'model = {name}.from_pretrained("DIR")\n'
        "```"
    )


def _stage(record: manifest.Manifest) -> str:
    """Describe one stage: its settings, its counts and the digests of its inputs."""
    settings = {key: value for key, value in record.config.items() if value not in ("", None, [], {}, False)}
    lines = [f"## {_code(record.stage)}", f"Settings: {_code(json.dumps(settings, ensure_ascii=False))}"]
    if record.counts:
        lines.append(_counts(record.counts))
    if record.inputs:
        named = record.inputs if len(record.inputs) <= _MOST_INPUTS else _by_folder(record.inputs)
        rows = [[_code(name), _code(digest[:16])] for name, digest in named.items()]
        lines.append(_table(("made from", "SHA-256"), rows))
    return "\n\n".join(lines)


def _by_folder(inputs: Mapping[str, str]) -> dict[str, str]:
    """Return each folder with its number of files -> SHA-256 of their names and digests."""
    folders: dict[Path, list[str]] = {}
    for name, digest in inputs.items():
        folders.setdefault(Path(name).parent, []).append(f"{Path(name).name} {digest}")
    return {
        f"{folder}: {len(lines)} files": hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()
        for folder, lines in folders.items()
    }


def _counts(counts: dict[str, Any]) -> str:
    """Format plain numbers on one line, and numbers by language, as the shards have them, as a table."""
    plain = {k: v for k, v in counts.items() if isinstance(v, int | float | str) and not isinstance(v, bool)}
    parts = [", ".join(_cell(f"{k} {v:,}" if isinstance(v, int) else f"{k} {v}") for k, v in plain.items())]
    trains = {
        lang: splits["train"]
        for lang, splits in counts.items()
        if isinstance(splits, dict) and isinstance(splits.get("train"), dict)
    }
    if trains:
        total = sum(c.get("tokens", 0) for c in trains.values()) or 1
        rows = [
            [
                _cell(lang),
                f"{c.get('items', 0):,}",
                f"{c.get('tokens', 0):,}",
                f"{c.get('tokens', 0) / total:.1%}",
            ]
            for lang, c in trains.items()
        ]
        parts.append(_table(("language", "items", "tokens", "share"), rows, 3))
    if aligned := _aligned(counts):
        rows = [
            [_cell(source), _cell(" ".join(langs)), f"{sum(langs.values()):,}"]
            for source, langs in aligned.items()
        ]
        parts.append(_table(("aligned text", "languages", "texts"), rows, 1))
    return "\n\n".join(part for part in parts if part)


def _scores(paths: Sequence[Path]) -> str:
    """List every score with its signature.

    Raises:
        UserError: a file does not contain scores.
    """
    rows = []
    for path in paths:
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            rows += [
                [
                    *map(_cell, (s["suite"], s["lang"], s["system"])),
                    f"{_cell(s['metric'])} {s['value']:.2f}",
                    _code(s["signature"]),
                ]
                for s in (content["scores"] if isinstance(content, dict) else content)
            ]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"{path} holds no scores: {error!r}", "tables/scores.json of `xling eval`"
            ) from None
    if not rows:
        return ""
    return "## Evaluation\n\n" + _table(("suite", "language", "system", "score", "signature"), rows)

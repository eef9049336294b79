"""The model card, written only from the manifests of a model and of its ancestors."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.output.command_result import visible
from xling.data.symbols import Symbols
from xling.pages import tabular

_CARD_FILE, _STATS_FILE = "card.md", "stats.json"  # files of a corpus
_MAX_LISTED_INPUTS = 20  # with more, a table has a line for each folder
MODEL_SYSTEM = "pretrained"
"""The name of the model itself among the systems of a table."""
_SCORE_FIELDS = ("suite", "lang", "system", "metric", "value", "signature")
_TASKS = {
    "retrieval": "sentence-similarity", "f1": "token-classification", "bleu": "translation", "chrf": "translation",
}  # fmt: skip
"""Part of a metric's name -> the Hub's name of the task."""
_LIMITATIONS = (
    "Text in another language or script than those above was not seen.",
    "The tokenizer gives the ids of the training, unnormalised text included; `<mask>`, `<s>` and the other "
    "specials written in a text are read as specials. Where two segmentations have the same score up to rounding, "
    "an older vocabulary may be segmented differently.",
    "Licences are those of the corpora above. Of text without a data card they are not known here.",
)
_INITIALISED_FROM_OTHERS = (
    "It was initialised from a model trained by others, whose licence and limits also apply."
)


def write_card(
    directory: Path,
    settings: dict[str, Any],
    scores: Sequence[Path] = (),
    symbols: Symbols | None = None,
    usage_example: str = "",
) -> str:
    """Write the card of a model in Markdown, with the front matter that the Hugging Face Hub reads.

    Args:
        scores: ``scores.json`` files.
        usage_example: example of use; by default one that loads the class of ``settings``.

    Raises:
        UserError: a file does not contain scores.
    """
    example = usage_example or _usage_example(settings["architectures"][0], symbols)
    return compose_card(directory, _describe_shape(settings), example, _LIMITATIONS, scores)


def compose_card(
    directory: Path,
    shape_sentence: str,
    usage_example: str,
    limitations: Sequence[str],
    scores: Sequence[Path] = (),
) -> str:
    """Compose a card from what is said of a model and from the manifests.

    Raises:
        UserError: a file does not contain scores.
    """
    ancestors = list(read_ancestors(directory))
    langs = next((m.counts["langs"] for m in ancestors if m.counts.get("langs")), None) or sorted(
        {lang for m in ancestors for row in _aligned_rows(m.counts).values() for lang in row}
    )
    from_others = any(record.stage.startswith("import") for record in ancestors)
    sections = [
        _front_matter(langs, model_index(directory.name, scores)),
        f"# {_format_cell(directory.name)}",
        f"{shape_sentence} Trained with xling{''.join(f' {m.code_version}' for m in ancestors[:1])}.",
        usage_example,
        _describe_objectives(ancestors),
        *(_describe_stage(m) for m in ancestors),
        _describe_corpora(ancestors),
        _describe_scores(scores),
        "## Limits\n\n"
        + "\n".join(
            f"- {line}" for line in (*limitations, *([_INITIALISED_FROM_OTHERS] if from_others else []))
        ),
    ]
    return "\n\n".join(part for part in sections if part) + "\n"


def _aligned_rows(counts: dict[str, Any]) -> dict[str, dict[str, int]]:
    """Return source -> language -> rows, if the counts are those of `xling corpus nway`."""
    rows = counts.get("rows")
    return rows if isinstance(rows, dict) else {}


def _describe_objectives(ancestors: Sequence[manifest.Manifest]) -> str:
    """Describe the training data: the objectives of every pre-training, the text that each read, and how often."""
    paragraphs = []
    for record in ancestors:
        if not isinstance(record.config.get("objectives"), dict):
            continue
        objective_list = "; ".join(
            _format_cell(name + "".join(f", {key} {value}" for key, value in settings.items()))
            for name, settings in record.config["objectives"].items()
        )
        text_seen = record.counts.get("seen", {})
        rows = [
            [_format_cell(name), f"{n['there']:,}", f"{n['read']:,}", f"{n['read'] / max(n['there'], 1):.2f}"]
            for name, n in text_seen.get("tokens", {}).items()
        ]
        column_names = ("text", "tokens available", "tokens read", "epochs")
        updates = f"{record.counts['updates']:,} updates" if "updates" in record.counts else ""
        paragraphs += [
            f"{updates}, objectives: {objective_list}.",
            _format_table(column_names, rows, 3) if rows else "",
        ]
    return "\n\n".join(["## Training", *(part for part in paragraphs if part)]) if paragraphs else ""


def _describe_corpora(ancestors: Sequence[manifest.Manifest]) -> str:
    """List the corpora that are still available: digests of their data cards and licences of their sources."""
    folders = {
        folder: None
        for record in ancestors
        for name in record.inputs
        for folder in (Path(name), *list(Path(name).parents)[:2])
        if (folder / _CARD_FILE).is_file() and (folder / _STATS_FILE).is_file()
    }
    rows = []
    for folder in folders:
        stats = json.loads((folder / _STATS_FILE).read_text(encoding="utf-8"))
        licences = "; ".join(dict.fromkeys(str(source["licence"]) for source in stats.get("sources", [])))
        digest = manifest.sha256(folder / _CARD_FILE)[:16]
        rows.append([_format_code(folder.name), f"`{digest}`", _format_cell(licences) or "not stated"])
    if not rows:
        return ""
    column_names = ("corpus", "SHA-256 of its data card", "licences of its sources")
    return "## Corpora\n\n" + _format_table(column_names, rows)


def read_ancestors(directory: Path) -> Iterable[manifest.Manifest]:
    """Return the manifest of a model, then those of its ancestors that are still available, nearest first."""
    queue, visited = [directory], set()
    while queue:
        path = queue.pop(0)
        if path in visited or not (path / manifest.FILE_NAME).is_file():
            continue
        visited.add(path)
        record = manifest.read(path)
        yield record
        queue += [Path(name) for name in record.inputs]


def _format_cell(value: object) -> str:
    """Return a text of others for Markdown: on one line, inside one cell, and without an HTML element."""
    text = " ".join(visible(str(value)).split()).replace("|", "\\|").replace("`", "\\`")
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text)


def _format_table(
    column_names: Sequence[str], rows: Sequence[Sequence[str]], num_number_columns: int = 0
) -> str:
    is_number = [column >= len(column_names) - num_number_columns for column in range(len(column_names))]
    return "\n".join(tabular.markdown_grid([column_names, *rows], is_number))


def _format_code(value: object) -> str:
    text = " ".join(visible(str(value)).split()).replace("`", "'").replace("|", "\\|")
    return f"`{text}`"


def _front_matter(langs: Sequence[str], index: str) -> str:
    base_codes = dict.fromkeys(code for code in (lang.split("_")[0] for lang in langs) if code.isalpha())
    codes = "".join(f"\n- {json.dumps(code)}" for code in base_codes)
    language = f"\nlanguage:{codes}" if codes else ""
    return f"---\nlibrary_name: transformers{language}\ntags:\n- xling\n- multilingual\n{index}---"


def model_index(name: str, paths: Sequence[Path]) -> str:
    """Return the scores of the model, without controls, as the ``model-index`` of the front matter; "" without any.

    The Hub shows it as a table. A score over several seeds is their mean.

    Raises:
        UserError: a file does not contain scores.
    """
    values: dict[tuple[str, str, str], list[float]] = {}
    for score in _read_scores(paths):
        if score["system"] == MODEL_SYSTEM:
            values.setdefault((score["suite"], score["lang"], score["metric"]), []).append(score["value"])
    results = [
        {
            "task": {
                "type": next((task for word, task in _TASKS.items() if word in metric), "text-classification")
            },
            "dataset": {"name": f"{suite} ({lang})", "type": suite, "config": lang},
            "metrics": [{"type": metric, "value": round(sum(each) / len(each), 2)}],
        }
        for (suite, lang, metric), each in values.items()
    ]
    if not results:
        return ""
    return yaml.safe_dump(
        {"model-index": [{"name": name, "results": results}]}, sort_keys=False, allow_unicode=True
    )


def _read_scores(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """Return the scores in files of ``xling eval``.

    Raises:
        UserError: a file does not contain scores.
    """
    rows: list[dict[str, Any]] = []
    for path in paths:
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            of_file = content["scores"] if isinstance(content, dict) else content
            rows += [{name: score[name] for name in _SCORE_FIELDS} for score in of_file]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"{path} holds no scores: {error!r}", "tables/scores.json of `xling eval`"
            ) from None
    return rows


def _describe_shape(settings: dict[str, Any]) -> str:
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


def _usage_example(name: str, symbols: Symbols | None) -> str:
    loads = (
        f"from transformers import AutoTokenizer, {name}\n\n"
        'tokenizer = AutoTokenizer.from_pretrained("DIR")\n'
        f'model = {name}.from_pretrained("DIR")\n'
    )
    if symbols is None:
        return f"```python\n{loads}```"
    lang = ', "[SOURCE]"' if symbols.source_lang else ""
    comment = "  # the language of the text" if symbols.source_lang else ""
    start = "forced_bos_token_id" if symbols.lang_first else "decoder_start_token_id"
    return (
        f"```python\n{loads}"
        f'batch = tokenizer("a text"{lang}, return_tensors="pt"){comment}\n'
        'wanted = tokenizer.convert_tokens_to_ids("[TARGET]")  # also generation_config.json: lang_to_id\n'
        f"outputs = model.generate(**batch, {start}=wanted)\n"
        "print(tokenizer.batch_decode(outputs, skip_special_tokens=True))\n"
        "```"
    )


def _describe_stage(record: manifest.Manifest) -> str:
    settings = {key: value for key, value in record.config.items() if value not in ("", None, [], {}, False)}
    lines = [
        f"## {_format_code(record.stage)}",
        f"Settings: {_format_code(json.dumps(settings, ensure_ascii=False))}",
    ]
    if record.counts:
        lines.append(_format_counts(record.counts))
    if record.inputs:
        digests = (
            record.inputs if len(record.inputs) <= _MAX_LISTED_INPUTS else _digests_by_folder(record.inputs)
        )
        rows = [[_format_code(name), _format_code(digest[:16])] for name, digest in digests.items()]
        lines.append(_format_table(("made from", "SHA-256"), rows))
    return "\n\n".join(lines)


def _digests_by_folder(inputs: Mapping[str, str]) -> dict[str, str]:
    """Return each folder with its number of files -> SHA-256 of their names and digests."""
    folders: dict[Path, list[str]] = {}
    for name, digest in inputs.items():
        folders.setdefault(Path(name).parent, []).append(f"{Path(name).name} {digest}")
    return {
        f"{folder}: {len(lines)} files": hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()
        for folder, lines in folders.items()
    }


def _format_counts(counts: dict[str, Any]) -> str:
    """Format plain numbers on one line, and numbers by language, as the shards have them, as a table."""
    scalar_counts = {
        k: v for k, v in counts.items() if isinstance(v, int | float | str) and not isinstance(v, bool)
    }
    paragraphs = [
        ", ".join(
            _format_cell(f"{k} {v:,}" if isinstance(v, int) else f"{k} {v}") for k, v in scalar_counts.items()
        )
    ]
    train_counts = {
        lang: splits["train"]
        for lang, splits in counts.items()
        if isinstance(splits, dict) and isinstance(splits.get("train"), dict)
    }
    if train_counts:
        total = sum(c.get("tokens", 0) for c in train_counts.values()) or 1
        rows = [
            [
                _format_cell(lang),
                f"{c.get('items', 0):,}",
                f"{c.get('tokens', 0):,}",
                f"{c.get('tokens', 0) / total:.1%}",
            ]
            for lang, c in train_counts.items()
        ]
        paragraphs.append(_format_table(("language", "items", "tokens", "share"), rows, 3))
    if aligned := _aligned_rows(counts):
        rows = [
            [_format_cell(source), _format_cell(" ".join(langs)), f"{sum(langs.values()):,}"]
            for source, langs in aligned.items()
        ]
        paragraphs.append(_format_table(("aligned text", "languages", "texts"), rows, 1))
    return "\n\n".join(part for part in paragraphs if part)


def _describe_scores(paths: Sequence[Path]) -> str:
    """List every score with its signature.

    Raises:
        UserError: a file does not contain scores.
    """
    rows = [
        [
            *map(_format_cell, (score["suite"], score["lang"], score["system"])),
            f"{_format_cell(score['metric'])} {score['value']:.2f}",
            _format_code(score["signature"]),
        ]
        for score in _read_scores(paths)
    ]
    if not rows:
        return ""
    return "## Evaluation\n\n" + _format_table(("suite", "language", "system", "score", "signature"), rows)

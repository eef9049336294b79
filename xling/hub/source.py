"""Location and cheap checks of a third-party model, before torch is imported."""

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from xling.core.commands import inputs
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.output.command_result import tell
from xling.core.registry import load
from xling.hub import configs
from xling.hub.settings import ImportConfig, TokenizerConfig

SAFETENSORS_FILE, SAFETENSORS_INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLE_FILE, PICKLE_INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"
ADAPTER_FILE = "adapter_config.json"
DOWNLOAD_PATTERNS = ("*.json", "*.safetensors", "*.model", "vocab.txt", "merges.txt")
"""Files that are downloaded from a repository on the Hugging Face Hub."""
ENCODER_TYPES = ("xlm-roberta", "bert", "modernbert")
CONVERTED_TYPES = (*ENCODER_TYPES, "mbart", "m2m_100", "bart", "t5", "mt5", "umt5")
"""Types that become models of ours."""
STATIC_TYPE = "xling_static"
"""Type of an exported static encoder of ours."""
WRAPPED_TYPES = (
    "roberta", "distilbert", "electra", "deberta", "deberta-v2", "camembert", "xlm-roberta-xl", "mpnet", "xlm",
)  # fmt: skip
"""Types of encoders that transformers computes."""
HEADS = ("ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering", "ForMultipleChoice")
"""Ends of the names of classes with the head of a task."""
_READ_HEADS = ("ModernBertForSequence", "ModernBertForToken", "ModernBertForQuestion")
UNSUPPORTED_TYPES = {
    "nllb-moe": "NLLB-MoE has a choice of feed-forward blocks for every token, which models here lack",
    "canine": "CANINE reads characters by hashing them, which models here do not",
}
"""Reasons why similar model types cannot be imported."""
MAX_JSON_BYTES = 2**28  # bytes; tokenizer.json of Gemma, the largest known, has 33 million
_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")


@dataclass(frozen=True)
class ModelSource:
    """A directory as ``save_pretrained`` writes it, and its ``config.json``.

    ``modules`` is what sentence-transformers wrote beside it, see `xling.hub.sentence_modules`.
    """

    folder: Path
    config: dict[str, Any]
    model_type: str
    modules: Any = None


def run_hf(cfg: ImportConfig) -> manifest.Manifest:
    """Check the files of a model, and import it; by `xling.hub.imports.run_hf` or `static_export.import_static`."""
    cfg = replace(cfg, source=Path(str(cfg.source).removeprefix(inputs.HUB_PREFIX)))
    source = find_and_check(cfg)
    importer = (
        "xling.hub.static_export:import_static"
        if source.model_type == STATIC_TYPE
        else "xling.hub.imports:run_hf"
    )
    published: manifest.Manifest = load(importer)(cfg, source)
    return published


def check_fairseq(cfg: ImportConfig) -> None:
    """Check the files of a model of fairseq (UserError: one is missing or damaged)."""
    check_file(cfg.source / "model.pt")
    check_file(cfg.source / "dict.txt", "the dictionary beside the weights")
    inputs.check_weights_file(cfg.source / "model.pt")


def check_xlm(cfg: ImportConfig) -> None:
    """Check the files of a model of XLM (UserError: one is missing or damaged)."""
    inputs.check_weights_file(find_xlm_files(cfg.source)[0])


def find_xlm_files(folder: Path) -> tuple[Path, Path]:
    """Return the checkpoint of XLM in a directory, and the codes of its BPE.

    Raises:
        UserError: one is missing, or there are several.
    """
    files = []
    for pattern, description in (("*.pth", "a checkpoint of XLM"), ("codes*", "the codes of its BPE")):
        paths = sorted(path for path in folder.glob(pattern) if path.is_file())
        if len(paths) != 1:
            problem = f"{folder} has {len(paths)} files {pattern}"
            raise UserError(problem, f"one: {description}", "put both into a directory of their own")
        files += paths
    return files[0], files[1]


def check_tokenizer(cfg: TokenizerConfig) -> None:
    """Check that a ``tokenizer.json`` can be read (UserError: it is missing or damaged)."""
    read_json(cfg.source / "tokenizer.json" if cfg.source.is_dir() else cfg.source)


def find_and_check(cfg: ImportConfig) -> ModelSource:
    """Find a model and check its type, and that its weights are there and whole.

    Raises:
        UserError: the model does not exist, is damaged or of another type, is a pickle without ``allow_pickle``,
            or there is no network.
    """
    folder = locate_model(cfg.source, cfg.allow_pickle, cfg.revision)
    inputs.check_output_place(cfg.out, [folder])
    read_modules = load("xling.hub.sentence_modules:read_modules")
    if (folder / ADAPTER_FILE).is_file():
        raise UserError(
            f"{folder} has an adapter beside its weights ({ADAPTER_FILE}), which transformers adds to them",
            "the weights of one model",
            "merge the adapter first: merge_and_unload(); or leave its files out for the model without it",
        )
    if not (folder / "config.json").is_file():
        read_modules(folder)  # says which module keeps it elsewhere
    config = read_json(folder / "config.json")
    model_type = str(config.get("model_type"))
    if model_type == STATIC_TYPE:
        check_file(folder / SAFETENSORS_FILE)
        return ModelSource(folder, config, model_type)
    if model_type not in (*CONVERTED_TYPES, *WRAPPED_TYPES):
        reason = f", and {UNSUPPORTED_TYPES[model_type]}" if model_type in UNSUPPORTED_TYPES else ""
        raise UserError(
            f"{cfg.source} is of type {model_type!r}{reason}",
            ", ".join((*CONVERTED_TYPES, *WRAPPED_TYPES)),
            "choose a model of one of these types",
        )
    configs.check_config(config, model_type, folder)
    tell_head(folder, config)
    paths = find_weight_files(folder, cfg.allow_pickle)
    if paths[0].suffix != ".bin":
        tensor_shapes = {
            name: shape for path in paths for name, shape in configs.read_tensor_shapes(path).items()
        }
        configs.check_weights(config, tensor_shapes, folder)
    modules = read_modules(folder)
    valid_types = [name for name in (*ENCODER_TYPES, *WRAPPED_TYPES) if name != "xlm"]
    if modules and model_type not in valid_types:
        raise UserError(
            f"{folder} has modules.json, and a model of type {model_type} has no sentence vectors here",
            f"sentence-transformers of the types {', '.join(valid_types)}",
            "import a copy of the folder without modules.json",
        )
    return ModelSource(folder, config, model_type, modules)


def tell_head(folder: Path, config: dict[str, Any]) -> None:
    """Say that the head of a fine-tuned model is not read; ModernBERT's are, but for choices."""
    names = [str(name) for name in config.get("architectures") or ()]
    heads = [name for name in names if name.endswith(HEADS) and not name.startswith(_READ_HEADS)]
    if heads:
        tell(
            f"xling: {folder} is a {heads[0]}: its encoder is read and its head left out; xling finetune learns one"
        )


def locate_model(source: Path, allow_pickle: bool, revision: str = "") -> Path:
    """Return the directory of a model: ``source`` itself, or a download from the Hugging Face Hub.

    Raises:
        UserError: neither exists, or the Hub cannot be reached.
    """
    if source.is_dir():
        return source
    name = str(source)
    if source.exists() or source.is_symlink() or not _NAME.fullmatch(name):
        raise UserError(f"no directory {source}", "a directory, or the name of a model on the hub")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    pickles = ["pytorch_model*.bin", f"*/{PICKLE_FILE}"] if allow_pickle else []
    patterns = [*DOWNLOAD_PATTERNS, *pickles]
    try:
        return Path(snapshot_download(name, revision=revision or None, allow_patterns=patterns))
    except (OSError, ValueError, HfHubHTTPError) as error:
        error_lines = str(error).strip().splitlines() or [type(error).__name__]
        raise UserError(
            f"there is no directory {name}, and no model of that name could be fetched: {error_lines[0]}",
            "a directory with the model, or its name where the hub can be reached",
            "check the name and the network, or copy the model here by other means",
        ) from None


def check_file(path: Path, valid: str = "") -> None:
    """Raise `UserError` if the file does not exist; ``valid`` says which file is wanted."""
    if not path.is_file():
        raise UserError(f"no file {path}", valid, "check the path")


def read_json(path: Path) -> dict[str, Any]:
    """Read the settings in a file.

    Raises:
        UserError: the file does not exist, is too large, or contains no settings.
    """
    check_file(path, "a directory as Hugging Face's save_pretrained writes it")
    if path.stat().st_size > MAX_JSON_BYTES:
        raise UserError(
            f"{path} has {path.stat().st_size} bytes", f"at most {MAX_JSON_BYTES}", "copy it again"
        )
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not JSON: {error}", fix="copy it again") from None
    if not isinstance(content, dict):
        raise UserError(f"{path} holds no settings", "a JSON object", "copy it again")
    return content


def read_optional_json(path: Path) -> dict[str, Any]:
    """Read the settings in a file as `read_json`; empty if there is none."""
    return read_json(path) if path.is_file() else {}


def find_weight_files(folder: Path, allow_pickle: bool) -> list[Path]:
    """Return the files of a model's weights: safetensors, or one pickle if that is allowed.

    Raises:
        UserError: a file is missing, or only a pickle is there and it was not allowed.
    """
    paths = _files_of(folder, SAFETENSORS_FILE, SAFETENSORS_INDEX)
    if paths[0].is_file():
        return paths
    paths = _files_of(folder, PICKLE_FILE, PICKLE_INDEX)
    if not paths[0].is_file():
        parts = sorted(path.name for path in folder.glob("*-of-*") if path.suffix in (".safetensors", ".bin"))
        raise UserError(
            f"no weights in {folder}"
            + (f" but {parts[0]} without the file that lists the parts" if parts else ""),
            f"{SAFETENSORS_FILE}, or {PICKLE_FILE} with allow_pickle=true",
            f"copy {SAFETENSORS_INDEX if parts[0].endswith('.safetensors') else PICKLE_INDEX} too"
            if parts
            else "",
        )
    if not allow_pickle:
        raise UserError(
            f"{paths[0]} is a pickle, which can hold code",
            SAFETENSORS_FILE,
            "allow_pickle=true reads tensors and plain values from it and rejects anything else",
        )
    return paths


def _files_of(folder: Path, whole: str, index: str) -> list[Path]:
    """Return the file ``whole``, or the parts that ``index`` names if that is there and ``whole`` is none beside them.

    Raises:
        UserError: the index is damaged, or a part that it names is missing while another is there.
    """
    if not (folder / index).is_file():
        return [folder / whole]
    file_of_weight = read_json(folder / index).get("weight_map")
    names = sorted({*map(str, file_of_weight.values())}) if isinstance(file_of_weight, dict) else []
    if not names or any("/" in name for name in names):
        raise UserError(
            f"{folder / index} names no files of this folder",
            '{"weight_map": {"NAME": "FILE"}}',
            "copy it again",
        )
    if whole not in names and (folder / whole).is_file():
        tell(f"xling: {folder / whole} is read, not the parts that {index} names, as transformers does")
        return [folder / whole]
    if any((folder / name).is_file() for name in names):
        for name in names:
            check_file(folder / name, f"the files that {index} names")
    return [folder / name for name in names]

"""Reading of third-party model files without executing code in them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor

from xling.array_types import Float, Float32, Shaped
from xling.core.errors import UserError
from xling.core.output.command_result import tell
from xling.hub import configs, rebuild, source, tokenizer
from xling.hub.source import check_file, read_json
from xling.models.files.model_weights import check_finite, load_tensors
from xling.text import vocab

SPM_NAMES = ("sentencepiece.bpe.model", "sentencepiece.model", "spm.model", "spiece.model")


@dataclass(frozen=True)
class ImportedVocabulary:
    """The tokenizer of a third-party model.

    Attributes:
        pieces: in the order of their rows, without specials.
        write: writes ``dict.txt`` and the tokenizer's own file into a directory.
        spm: its SentencePiece model, a protocol buffer, if it has one.
    """

    pieces: list[str]
    write: Callable[[Path], None]
    spm: Any = None


MADE_UP = re.compile(r"madeupword\d+")
"""Entries with which ``fairseq-preprocess`` fills a dictionary up to a multiple of 8."""
PROBES = (
    "The OLD woman's 3 boats cost 2,50 (in 2019)!", "naïve Ångström — Łódź", "Старая женщина видит лодку.",
    "هذه امرأة عجوز", "नमस्ते दुनिया", "我们是学生。", "저는 학생입니다",
)  # fmt: skip
"""Texts that two tokenizers of one model cut alike. No character has another form: there libraries differ."""
TWO_MARKS = "o\u0323\u0300r e\u0323\u0301k"
"""Decomposed letters with two marks, as Yoruba has: transformers drops the second, where SentencePiece keeps it."""
_WRAPPERS = re.compile(r"((module|_orig_mod|_fsdp_wrapped_module)\.)+")
_INDICES = ("position_ids", "token_type_ids", "num_batches_tracked")
_ADAPTERS = ("lora_A", "lora_B", "lora_embedding_A", "base_layer", "lora_magnitude_vector")
_BY_TOKEN = ("embed_tokens.weight", "output_projection.weight", "lm_head.weight", "lm_head.bias")


@contextlib.contextmanager
def explain_file_errors(folder: Path) -> Iterator[None]:
    """Turn an error of Python, from a value of the wrong type in a model's JSON files, into one that names the folder.

    Raises:
        UserError: a value is missing, or of another type than transformers writes.
    """
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise UserError(
            f"{folder}: config.json or a file of its tokenizer holds what cannot be used: {error!r}",
            "the files as transformers writes them",
            "copy them again",
        ) from error


def read_hf_weights(folder: Path, allow_pickle: bool) -> dict[str, Shaped[Tensor, " ..."]]:
    """Read all tensors of a model of transformers, from safetensors, or from a pickle if that is allowed.

    Raises:
        UserError: a file is missing, damaged, or a pickle that was not allowed or has code in it; or a weight is
            not finite.
    """
    weights: dict[str, Shaped[Tensor, " ..."]] = {}
    for path in source.find_weight_files(folder, allow_pickle):
        tensors = read_pickle(path) if path.suffix == ".bin" else load_file(path)
        _check_kinds(tensors, path)
        check_finite({name: each for name, each in tensors.items() if isinstance(each, Tensor)}, path)
        weights |= tensors
    return without_wrappers(weights)


def without_wrappers(weights: Mapping[str, Shaped[Tensor, " ..."]]) -> dict[str, Shaped[Tensor, " ..."]]:
    """Return weights without what copies on several GPUs or ``torch.compile`` put before all of their names."""
    is_wrapped = all(map(_WRAPPERS.match, weights))
    return {_WRAPPERS.sub("", name, count=1) if is_wrapped else name: each for name, each in weights.items()}


def _check_kinds(tensors: Mapping[str, Any], path: Path) -> None:
    """Raise UserError for weights that are in whole numbers, or beside which adapters would have to be added."""
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor) or name.endswith(_INDICES):
            continue
        is_adapter = any(part in _ADAPTERS for part in name.split("."))
        if is_adapter or not tensor.is_floating_point():
            problem = "is a part of an adapter" if is_adapter else f"is in {tensor.dtype}"
            fix = (
                "merge the adapter first: merge_and_unload()"
                if is_adapter
                else "take the model as it was before"
            )
            raise UserError(f"{path}: {name!r} {problem}", "weights in float32, float16 or bfloat16", fix)


def read_pickle(path: Path) -> dict[str, Any]:
    """Read tensors and plain values of a pickle; code in it is never executed.

    Raises:
        UserError: the file does not exist, is not torch's, or contains anything else.
    """
    check_file(path)
    try:
        content = load_tensors(path)
    except OSError:
        raise
    except Exception:  # what torch says advises to load the file with its code
        raise UserError(
            f"{path} is damaged or holds more than tensors, and was not read",
            "a file of tensors and plain values",
            "ask its authors for safetensors",
        ) from None
    if not isinstance(content, dict):
        raise UserError(
            f"{path} holds no weights by name", "a file that maps names to tensors", "copy it again"
        )
    return content


def read_sizes(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of `xling.hub.configs.HF_SIZE_NAMES` in a ``config.json``, by our names."""
    return {ours: config[theirs] for ours, theirs in configs.HF_SIZE_NAMES.items()}


def read_sentencepiece(folder: Path) -> ImportedVocabulary:
    """Read the SentencePiece model of a directory, rebuilt from ``tokenizer.json`` if there is nothing else.

    Raises:
        UserError: there is none, or it is damaged.
    """
    tokenizer_path = folder / "tokenizer.json"
    if tokenizer_path.is_file() and not spm_paths(folder):
        return vocabulary_from_spm(rebuild.rebuild_sentencepiece(read_json(tokenizer_path), tokenizer_path))
    return vocabulary_from_spm(tokenizer.read_spm_model(find_spm_path(folder)))


def spm_paths(folder: Path) -> list[Path]:
    """List the files of a directory that hold a SentencePiece model."""
    return [folder / name for name in SPM_NAMES if (folder / name).is_file()]


def find_spm_path(folder: Path) -> Path:
    """Return the path of a directory's SentencePiece model.

    Raises:
        UserError: there is none.
    """
    if not (present := spm_paths(folder)):
        raise UserError(
            f"{folder} has no SentencePiece model", f"{' or '.join(SPM_NAMES)}, or tokenizer.json"
        )
    return present[0]


def vocabulary_from_spm(model: Any) -> ImportedVocabulary:
    """Return the vocabulary of a SentencePiece model whose specials are ``<unk> <s> </s>``."""
    pieces = [p.piece for p in model.pieces[tokenizer.NUM_SPM_SPECIALS :]]

    def write(out: Path) -> None:
        (out / "spm.model").write_bytes(model.SerializeToString())
        write_dictionary(out, pieces)

    return ImportedVocabulary(pieces, write, model)


def write_dictionary(out: Path, pieces: list[str]) -> None:
    """Write ``dict.txt``."""
    (out / "dict.txt").write_text("".join(f"{piece} 1\n" for piece in pieces), encoding="utf-8")


def read_tokens(folder: Path) -> list[str]:
    """List the tokens of ``tokenizer.json`` by id, including added ones; empty if there is no such file."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        return []
    settings = read_json(path)
    vocabulary = settings.get("model", {}).get("vocab", [])
    if isinstance(vocabulary, list):
        by_id = dict(enumerate(piece for piece, *_ in vocabulary))
    else:
        by_id = {number: name for name, number in vocabulary.items()}
    by_id |= {added["id"]: added["content"] for added in settings.get("added_tokens", [])}
    return [by_id.get(i, "") for i in range(max(by_id, default=-1) + 1)]


def added_tokens(folder: Path) -> set[str]:
    """Return the tokens that are found in a text before it is cut, by any of the files that may name them."""
    settings, config = (
        source.read_optional_json(folder / name) for name in ("tokenizer.json", "tokenizer_config.json")
    )
    tokens: list[Any] = [
        *(settings.get("added_tokens") or []),
        *(config.get("added_tokens_decoder") or {}).values(),
    ]
    for values in (config, source.read_optional_json(folder / "special_tokens_map.json")):
        for name in ("additional_special_tokens", "extra_special_tokens"):
            given = values.get(name) or []
            tokens += given.values() if isinstance(given, Mapping) else given
    names = {str(each["content"] if isinstance(each, Mapping) else each) for each in tokens}
    return names | {*source.read_optional_json(folder / "added_tokens.json")}


def check_tokenizer(folder: Path, pieces: list[str]) -> None:
    """Compare the pieces with those of ``tokenizer.json``, if there is one.

    Raises:
        UserError: they differ.
    """
    if tokens := read_tokens(folder):
        first = len(tokenizer.SPECIAL_TOKENS)
        check_same_pieces(tokens[first : first + len(pieces)], pieces, folder / "tokenizer.json")


def read_tokenizer(path: Path) -> Tokenizer:
    """Read a file of the package tokenizers.

    Raises:
        UserError: it is none.
    """
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises nothing narrower
        raise UserError(
            f"{path} is not a tokenizer.json: {error}", "a file of the package tokenizers", "copy it again"
        ) from None


def check_same_cuts(folder: Path, pieces: Sequence[str], out: Path) -> None:
    """Compare what ``tokenizer.json``, if there is one, makes of `PROBES` with the vocabulary written into ``out``.

    Raises:
        UserError: a text is cut into other pieces.
    """
    path = folder / "tokenizer.json"
    if not path.is_file() or (out / vocab.TRANSFORMERS_TOKENIZER).is_file():
        return
    theirs, ours, known = read_tokenizer(path), vocab.load_processor(out), {*pieces}
    theirs.no_truncation()
    theirs.no_padding()
    for text in (*PROBES, TWO_MARKS):
        their_names = [
            name if name in known else "<unk>"
            for name in theirs.encode(text, add_special_tokens=False).tokens
        ]
        first = tokenizer.NUM_SPM_SPECIALS
        our_names = [pieces[n - first] if n >= first else "<unk>" for n in ours.encode(text)]
        if their_names != our_names and text == TWO_MARKS:
            tell(
                f"xling: {folder}: decomposed letters with two marks, as in Yoruba, keep both, as in SentencePiece; "
                "transformers drops the second, so that its numbers for such text differ"
            )
        elif their_names != our_names:
            raise UserError(
                f"{path} cuts {text!r} into {' '.join(their_names[:12])!r}, and the vocabulary beside it into "
                f"{' '.join(our_names[:12])!r}",
                "files of one tokenizer",
                "give the tokenizer that the weights were trained with",
            )


def check_rows(num_rows: int, num_ids: int, model_name: Path) -> None:
    """Reject weights and a tokenizer of different sizes.

    Raises:
        UserError: the sizes differ.
    """
    if num_rows != num_ids:
        raise UserError(
            f"{model_name} has {num_rows} embeddings, and its tokenizer {num_ids} ids",
            "weights and tokenizer of one model",
            "give the SentencePiece model that the weights were trained with",
        )


def check_padding(padding: int, of_tokenizer: int, model_name: Path | str) -> None:
    """Reject a model whose positions count from another id than that of its tokenizer's padding.

    Raises:
        UserError: the ids differ.
    """
    if padding != of_tokenizer:
        raise UserError(
            f"{model_name}: positions are counted from pad_token_id={padding}, and its tokenizer pads with "
            f"{of_tokenizer}",
            "one id in both",
            "copy both from the model as it was trained",
        )


def check_largest_id(order: Sequence[int], num_rows: int, model_name: Path | str) -> None:
    """Reject a tokenizer with an id that the embeddings have no row for.

    Raises:
        UserError: there is one.
    """
    if max(order) >= num_rows:
        raise UserError(
            f"{model_name} has {num_rows} embeddings, and its tokenizer the id {max(order)}",
            "weights and tokenizer of one model",
            "give the tokenizer that the weights were trained with",
        )


def drop_unused_rows(weights: dict[str, Shaped[Tensor, " ..."]], num_ids: int, folder: Path) -> None:
    """Remove, in place, the rows after ``<mask>`` of a model that has more rows than its tokenizer uses.

    Such rows pad a matrix to a round size or belong to tokens that were added later. They are removed only if
    ``tokenizer.json`` says that ``<mask>`` is the last of ``num_ids``; otherwise `check_rows` rejects the model.
    """
    num_rows, tokens = len(weights["encoder.tokens.weight"]), read_tokens(folder)
    if num_rows <= num_ids or tokens[num_ids - 1 : num_ids] != [tokenizer.MASK_TOKEN]:
        return
    dropped = [name for name in tokens[num_ids:] if name]
    examples = f", of them {', '.join(map(repr, dropped[:5]))}" if dropped else ""
    tell(f"xling: {folder}: {num_rows - num_ids} rows behind <mask> are left out{examples}")
    for name in ("encoder.tokens.weight", "lm_head.bias"):
        weights[name] = weights[name][:num_ids].clone()


def shared_embeddings(
    tables: Sequence[Float[Tensor, "vocab dim"]], model_name: Path
) -> Float32[Tensor, "vocab dim"]:
    """Return the embeddings (V, D), float32, of a model that stores them in several places.

    Raises:
        UserError: there are none, or they differ.
    """
    if not tables:
        raise UserError(f"{model_name} has no embeddings", "the weights of a ...ForConditionalGeneration")
    if any(not torch.equal(tables[0], other) for other in tables[1:]):
        raise UserError(
            f"{model_name} has different embeddings for source, target or output",
            "one matrix for all of them",
            "xling has no such models: choose another",
        )
    return tables[0].float()


def check_tied(
    output: Shaped[Tensor, " ..."] | None, tokens: Shaped[Tensor, " ..."] | None, model_name: Path | str
) -> None:
    """Reject a matrix of the output layer that is not that of the embeddings; either may be missing.

    Raises:
        UserError: they differ.
    """
    if output is not None and tokens is not None and not torch.equal(output, tokens):
        raise UserError(
            f"the output layer of {model_name} has a matrix of its own",
            "one that shares its matrix with the embeddings",
            "xling has no such models: choose another",
        )


def check_same_pieces(listed_pieces: list[str], pieces: list[str], path: Path) -> None:
    """Reject a list of pieces that differs from the SentencePiece model's.

    Raises:
        UserError: the message names the first piece that differs.
    """
    if listed_pieces == pieces:
        return
    first_difference = next(
        (i for i, (a, b) in enumerate(zip(listed_pieces, pieces, strict=False)) if a != b), -1
    )
    finding = (
        f"piece {first_difference} is {listed_pieces[first_difference]!r}"
        if first_difference >= 0
        else f"it has {len(listed_pieces)} pieces"
    )
    raise UserError(
        f"{path} and {path.parent}'s SentencePiece model differ: {finding}",
        repr(pieces[first_difference]) if first_difference >= 0 else f"{len(pieces)}",
        "give the files of one model",
    )


def read_fairseq_dictionary(path: Path) -> list[str]:
    """Read the entries of a fairseq dictionary, with the lines that only pad it to a round size; see `MADE_UP`.

    Raises:
        UserError: the file does not exist.
    """
    check_file(path, "the dictionary beside the weights")
    return [line.rsplit(" ", 1)[0] for line in path.read_text(encoding="utf-8").split("\n") if line]


def drop_made_up_words(entries: list[str], state: dict[str, Any]) -> list[str]:
    """Return the entries of a dictionary without its padding, and remove the rows of that from the weights, in place.

    Args:
        entries: as `read_fairseq_dictionary` returns them; their ids begin behind the specials.
        state: tensors of a model of fairseq.
    """
    num = next((i for i, entry in enumerate(reversed(entries)) if not MADE_UP.fullmatch(entry)), len(entries))
    if not num:
        return entries
    kept = entries[: len(entries) - num]
    begin = len(tokenizer.SPECIAL_TOKENS) + len(kept)
    for name, tensor in state.items():
        if name.endswith(_BY_TOKEN) and len(tensor) >= begin + num:
            state[name] = torch.cat([tensor[:begin], tensor[begin + num :]])
    return kept

"""Import of a ``tokenizer.json`` as a vocabulary: any model of the package tokenizers, Gemma's BPE with bytes too.

The tokenizer stays as it is, with its id for each of ours, so that every text is cut into the same pieces.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from xling.core.errors import UserError
from xling.core.output import manifest
from xling.hub.settings import TokenizerConfig
from xling.hub.source import read_json
from xling.hub.transformers_wrapper import Tokens, in_our_order, write_vocabulary
from xling.text.vocab import vocab_digest

SPECIALS = {
    "begin": (("cls_token", "bos_token"), ("<s>", "<bos>", "[CLS]", "<|begin_of_text|>")),
    "padding": (("pad_token",), ("<pad>", "[PAD]")),
    "end": (("sep_token", "eos_token"), ("</s>", "<eos>", "[SEP]", "<|endoftext|>")),
    "unknown": (("unk_token",), ("<unk>", "[UNK]")),
    "mask": (("mask_token",), ("<mask>", "[MASK]")),
}
"""What a special is for -> its settings in ``tokenizer_config.json``, and the usual names."""


def run(cfg: TokenizerConfig) -> manifest.Manifest:
    """Publish ``foreign.json`` and ``dict.txt``.

    Raises:
        UserError: there is no such file, it is damaged, or it lacks a special token.
    """
    path = cfg.source / "tokenizer.json" if cfg.source.is_dir() else cfg.source
    if not path.is_file():
        raise UserError(f"no file {path}", "a tokenizer.json, or a directory with one")
    settings = path.with_name("tokenizer_config.json")
    inputs = [path, *([settings] if settings.is_file() else [])]
    if done := manifest.up_to_date(cfg.out, "import tokenizer", cfg, inputs):
        return done
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises nothing narrower
        raise UserError(
            f"{path} is not a tokenizer.json: {error}", "a file of the package tokenizers"
        ) from None
    tokens = tokens_of(tokenizer, read_json(settings) if settings.is_file() else {}, path)
    with manifest.publish(cfg.out, "import tokenizer", cfg, inputs) as publication:
        write_vocabulary(tokens, publication.path)
        publication.counts |= {"pieces": len(tokens.names), "vocab_digest": vocab_digest(publication.path)}
    return manifest.read(cfg.out)


def tokens_of(tokenizer: Tokenizer, settings: Mapping[str, Any], path: Path) -> Tokens:
    """Return a tokenizer with its id for each of our ids.

    Args:
        tokenizer: the tokenizer.
        settings: content of ``tokenizer_config.json``, may be empty.
        path: its file, for messages.

    Raises:
        UserError: a special is missing; a mask alone may be, and the padding stands for it.
    """
    ids = tokenizer.get_vocab(with_added_tokens=True)
    special = {what: _special(ids, settings, *where) for what, where in SPECIALS.items()}
    if special["mask"] is None:
        special["mask"] = special["padding"]
    for what, (keys, names) in SPECIALS.items():
        if special[what] is None:
            raise UserError(
                f"{path} has no token for {what}",
                f"one of {' '.join(names)}, or {keys[0]} in tokenizer_config.json beside it",
            )
    return in_our_order(tokenizer, *(number for number in special.values() if number is not None))


def _special(
    ids: Mapping[str, int], settings: Mapping[str, Any], keys: tuple[str, ...], names: tuple[str, ...]
) -> int | None:
    """Return the id of a special by the settings, else by its usual names, None if there is none."""
    told = [settings.get(key) for key in keys]
    given = [token.get("content") if isinstance(token, Mapping) else token for token in told]
    return next((ids[name] for name in (*given, *names) if isinstance(name, str) and name in ids), None)

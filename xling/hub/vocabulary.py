"""Import of a ``tokenizer.json`` as a vocabulary: any model of the package tokenizers, Gemma's BPE with bytes too.

The tokenizer stays as it is, with its id for each of ours, so that every text is cut into the same pieces.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from xling.core.errors import UserError
from xling.core.output import manifest
from xling.hub.files import read_tokenizer
from xling.hub.settings import TokenizerConfig
from xling.hub.source import read_json
from xling.hub.transformers_wrapper import OrderedTokenizer, order_tokenizer, write_vocabulary
from xling.text.files.shards import vocab_digest

SPECIAL_TOKEN_SOURCES = {
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
    if published := manifest.up_to_date(cfg.out, "import tokenizer", cfg, inputs):
        return published
    tokenizer = read_tokenizer(path)
    ordered_tokenizer = order_by_specials(tokenizer, read_json(settings) if settings.is_file() else {}, path)
    with manifest.publish(cfg.out, "import tokenizer", cfg, inputs) as publication:
        write_vocabulary(ordered_tokenizer, publication.path)
        publication.counts |= {
            "pieces": len(ordered_tokenizer.names),
            "vocab_digest": vocab_digest(publication.path),
        }
    return manifest.read(cfg.out)


def order_by_specials(tokenizer: Tokenizer, settings: Mapping[str, Any], path: Path) -> OrderedTokenizer:
    """Return a tokenizer with its id for each of our ids.

    Args:
        settings: content of ``tokenizer_config.json``, may be empty.

    Raises:
        UserError: a special is missing; a mask alone may be, and the padding stands for it.
    """
    id_of_token = tokenizer.get_vocab(with_added_tokens=True)
    ids: dict[str, int] = {}
    for purpose, (keys, names) in SPECIAL_TOKEN_SOURCES.items():
        given = [settings.get(key) for key in keys]
        given = [token.get("content") if isinstance(token, Mapping) else token for token in given]
        known = [
            id_of_token[name] for name in (*given, *names) if isinstance(name, str) and name in id_of_token
        ]
        if not known and purpose != "mask":
            raise UserError(
                f"{path} has no token for {purpose}",
                f"one of {' '.join(names)}, or {keys[0]} in tokenizer_config.json beside it",
            )
        ids[purpose] = known[0] if known else ids["padding"]
    return order_tokenizer(tokenizer, *ids.values())

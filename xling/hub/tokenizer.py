"""A SentencePiece model as a fast tokenizer whose ids are ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sentencepiece import sentencepiece_model_pb2 as proto
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers, processors
from tokenizers.models import BPE, Unigram

from xling.core.errors import UserError
from xling.hub import charsmap

SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")
MASK = "<mask>"
NUM_SPM_SPECIALS = 3
UNIGRAM, BPE_TYPE = 1, 2
NORMAL = 1


def read_model(path: Path) -> Any:
    """The SentencePiece model in a file, as its protocol buffer.

    Raises:
        UserError: no such file, or it is none.
    """
    model = proto.ModelProto()
    try:
        model.ParseFromString(path.read_bytes())
    except Exception as error:
        raise UserError(
            f"{path} is no SentencePiece model: {error}", fix="take the file of the run"
        ) from None
    if len(model.pieces) <= NUM_SPM_SPECIALS:
        raise UserError(f"{path} is no SentencePiece model: it has {len(model.pieces)} pieces")
    return model


def build(path: Path) -> Tokenizer:
    """The fast tokenizer of the model in ``path``: ids as `corpora.vocab` numbers them, ``<mask>`` last.

    Raises:
        UserError: the file is damaged, or the model is of a kind that has no fast equal.
    """
    model = read_model(path)
    trained, rules = model.trainer_spec, model.normalizer_spec
    odd = [p.piece for p in model.pieces[NUM_SPM_SPECIALS:] if p.type != NORMAL]
    if trained.byte_fallback or odd or trained.treat_whitespace_as_suffix or not rules.escape_whitespaces:
        raise UserError(
            f"{path} has {'pieces like ' + odd[0] if odd else 'byte fallback or spaces behind words'}",
            "a model as `xling vocab` trains it",
        )
    pieces = [(p.piece, p.score) for p in model.pieces[NUM_SPM_SPECIALS:]]
    tokens = [*((name, 0.0) for name in SPECIALS), *pieces, (MASK, 0.0)]
    made = Tokenizer(_bpe(tokens) if trained.model_type == BPE_TYPE else Unigram(tokens, 3, False))
    made.normalizer = charsmap.normaliser(
        rules.precompiled_charsmap, remove_extra_whitespaces=rules.remove_extra_whitespaces
    )
    prepend = "always" if rules.add_dummy_prefix else "never"
    made.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend)
    made.decoder = decoders.Metaspace("▁", prepend)
    bos, eos = ("<s>", 0), ("</s>", 2)
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[bos, eos]
    )
    made.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in SPECIALS])
    made.add_special_tokens([AddedToken(MASK, special=True, normalized=False, lstrip=True)])
    return made


def _bpe(tokens: list[tuple[str, float]]) -> BPE:
    """Merges from the pieces: every way to make a piece of two others, the best pieces first.

    Source: SentencePiece's BPE joins the neighbours whose joint piece has the best score (bpe_model.cc).
    """
    scores = dict(tokens)
    ids = {piece: index for index, (piece, _) in enumerate(tokens)}
    merges = []
    for piece, score in tokens[len(SPECIALS) : -1]:
        halves = [(piece[:i], piece[i:]) for i in range(1, len(piece))]
        merges += [(-score, ids[a], ids[b], a, b) for a, b in halves if a in scores and b in scores]
    merges.sort()
    return BPE(ids, [(a, b) for *_, a, b in merges], unk_token="<unk>", fuse_unk=True)


def save(made: Tokenizer, directory: Path, max_length: int) -> None:
    """Write ``tokenizer.json`` and what `transformers.AutoTokenizer` reads beside it.

    Args:
        made: what `build` returned.
        directory: where to.
        max_length: tokens of one sequence, specials included.
    """
    made.save(str(directory / "tokenizer.json"))
    names = {"bos": "<s>", "cls": "<s>", "eos": "</s>", "sep": "</s>", "pad": "<pad>", "unk": "<unk>"}
    special = {f"{key}_token": name for key, name in names.items()} | {"mask_token": MASK}
    # The generic class: that of XLM-R puts a normaliser and a pre-tokeniser of its own in the place of these.
    settings = special | {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": max_length,
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "attention_mask"],
    }
    for name, content in (("tokenizer_config.json", settings), ("special_tokens_map.json", special)):
        (directory / name).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

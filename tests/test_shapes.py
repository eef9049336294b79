"""Shapes: every public function names them, and the checks of `tests.shape_checks` catch planted faults.

A fault is planted in the body of a function (a line of its source is replaced, or an argument of a call in it) and the
function is called as `EXERCISES` calls it. The checks must refuse it; without the fault they must not.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import re
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest
import torch
from jaxtyping import TypeCheckError
from scipy import sparse
from torch import Tensor

from tests import shape_checks
from tests.conftest import ROOT
from xling.corpora.langid import ngrams
from xling.corpora.parallel.wordalign import model1
from xling.corpora.stages import paragraphs
from xling.data import masking, noise
from xling.data.symbols import Symbols
from xling.eval.kinds import nearest_neighbours
from xling.eval.metrics import base as metrics
from xling.hub import files, t5
from xling.models.distributed import processes
from xling.models.generate import decode
from xling.models.network import adapters, attention, blocks, dropout, encoder, int8, loss, positions, seq2seq
from xling.models.optim import adamw
from xling.objectives import clpc, clwr, distill, hictl, span_corruption, xlco, xmlm
from xling.static import heads as static_heads
from xling.static import latent, tagger, train
from xling.transfer import heads

ROOMS = ("xling", "corpora", "eval", "slurm")
ALIAS = re.compile(r"^(\w+)(?:: TypeAlias)? = (?:npt\.|np\.)?(?:NDArray|ndarray|Tensor)\b", re.MULTILINE)
SOURCES = {
    path: path.read_text(encoding="utf-8") for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))
}
SHAPED = re.compile(r"\b\w+\[((?:torch\.)?Tensor|np\.ndarray), '[^']*'\]")
BARE = r"\b(Tensor|np\.ndarray|NDArray{aliases})\b"


def aliases_in(path: Path) -> set[str]:
    """Names of bare arrays in a module: its own, and those that it imports."""
    found = set(ALIAS.findall(SOURCES[path]))
    for module, names in re.findall(r"^from (xling\S*) import (.+)$", SOURCES[path], re.MULTILINE):
        source = (ROOT / module.replace(".", "/")).with_suffix(".py").resolve()
        found |= set(ALIAS.findall(SOURCES.get(source, ""))) & set(names.split(", "))
    return found


def bare_names() -> list[str]:
    """Functions with a public name, those within others too, and fields of public classes without shapes."""
    found = []

    def visit(node: ast.AST, where: str, bare: str) -> None:
        for each in ast.iter_child_nodes(node):
            if isinstance(each, (ast.ClassDef, ast.FunctionDef)):
                is_public = not each.name.startswith("_") or each.name in ("__init__", "__call__")
                hints = hints_of(each) if is_public else []
                found.extend(
                    f"{where}{name}" for name, hint in hints if re.search(bare, SHAPED.sub("", hint))
                )
                visit(each, f"{where}{each.name}.", bare)
            else:
                visit(each, where, bare)

    for path, source in SOURCES.items():
        bare = BARE.format(aliases="".join(f"|{name}" for name in aliases_in(path)))
        visit(ast.parse(source), f"{path.relative_to(ROOT)}:", bare)
    return found


def hints_of(node: ast.ClassDef | ast.FunctionDef) -> list[tuple[str, str]]:
    """The types of a function, or of the public fields of a class, each with what it belongs to."""
    if isinstance(node, ast.ClassDef):
        fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
        named = [(ast.unparse(each.target), ast.unparse(each.annotation)) for each in fields]
        return [(f"{node.name}.{name}", hint) for name, hint in named if not name.startswith("_")]
    given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    given += [more for more in (node.args.vararg, node.args.kwarg) if more]
    hints = [argument.annotation for argument in given] + [node.returns]
    return [(node.name, ast.unparse(hint)) for hint in hints if hint is not None]


# The ground floor imports no jaxtyping, and what stands there overrides a method of numpy.
WITHOUT_SHAPES = ["xling/core/sampling.py:_PhiloxKey.generate_state"]


def test_every_public_function_names_its_shapes() -> None:
    assert bare_names() == WITHOUT_SHAPES


LENGTHS, VOCAB, DIM = (6, 5), 13, 8
TOKENS = sum(LENGTHS)
RUNS = [(1, length) for length in LENGTHS]
CFG = {"layers": 2, "dim": DIM, "heads": 2, "ffn_dim": 12, "max_positions": 16, "precision": "fp32"}
SYMBOLS = Symbols(VOCAB - 3, ("en", "sw"), 0)


def rng() -> np.random.Generator:
    return np.random.default_rng(1)


def of_shape(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def an_encoder(**more: Any) -> encoder.EncoderModel:
    return encoder.EncoderModel(encoder.EncoderConfig(**CFG, **more), VOCAB)


def a_seq2seq() -> seq2seq.Seq2SeqModel:
    return seq2seq.Seq2SeqModel(seq2seq.Seq2SeqConfig(**CFG, plain_head=True), VOCAB)


def attended() -> Any:
    query = of_shape(TOKENS, 2, 4)
    return attention.attend(query, query, query, attention.Attention(RUNS))


TEXT = np.array([0, 5, 6, 7, 8, 9, 5, 2])
WORDS = np.array([-1, 0, 1, 1, 2, 3, 4, -1])
STARTS = np.arange(VOCAB) % 2 == 1
RULE = masking.MaskRule(0.5, 0.1, 0.1, 10, 4, 10, "span", STARTS)
LAYOUT = blocks.BlockLayout([LENGTHS], torch.device("cpu"))

EXERCISES: dict[str, Callable[[], Any]] = {
    "projections": lambda: encoder.projections(an_encoder().encoder.layers[0], of_shape(TOKENS, DIM)),
    "feed_forward": lambda: encoder.feed_forward(an_encoder().encoder.layers[0], of_shape(TOKENS, DIM)),
    "scale_embeddings": lambda: encoder.scale_embeddings(of_shape(TOKENS, DIM), encoder.EncoderConfig(**CFG)),
    "Layer.forward": lambda: an_encoder().encoder.layers[0](of_shape(TOKENS, DIM), attention.Attention(RUNS)),
    "RelativeBiases.bucket_of": lambda: positions.RelativeBiases(2).bucket_of(torch.arange(-3, 4)),
    "RelativeBiases.biases_at": lambda: positions.RelativeBiases(2).biases_at(torch.arange(-3, 4)),
    "RelativeBiases.forward": lambda: positions.RelativeBiases(2)(5, torch.device("cpu")),
    "LMHead.transform": lambda: an_encoder().lm_head.transform(of_shape(TOKENS, DIM)),
    "LMHead.logits": lambda: an_encoder().lm_head.logits(of_shape(TOKENS, DIM)),
    "LMHead.loss": lambda: an_encoder().lm_head.loss(of_shape(TOKENS, DIM), torch.arange(TOKENS)),
    "Encoder.forward": lambda: an_encoder().encoder(torch.arange(TOKENS), torch.arange(TOKENS), RUNS),
    "attend": attended,
    "attend_dense": lambda: attention.attend_dense(*(of_shape(3, 2, 5, 4) for _ in range(3))),
    "sequence_offsets": lambda: attention.sequence_offsets([(2, 3)], torch.device("cpu")),
    "Attention.masked_bias": lambda: attention.Attention(RUNS, bias=of_shape(2, 6, 6)).masked_bias(None, 5),
    "BlockLayout.to_blocks": lambda: LAYOUT.to_blocks(of_shape(TOKENS, DIM)),
    "BlockLayout.to_packed": lambda: LAYOUT.to_packed(LAYOUT.to_blocks(of_shape(TOKENS, DIM))),
    "Adapter.forward": lambda: adapters.Adapter(DIM, 3)(of_shape(TOKENS, DIM)),
    "InvertibleAdapter.forward": lambda: adapters.InvertibleAdapter(DIM)(of_shape(TOKENS, DIM)),
    "InvertibleAdapter.inverse": lambda: adapters.InvertibleAdapter(DIM).inverse(of_shape(TOKENS, DIM)),
    "total_norm": lambda: processes.total_norm([of_shape(3), of_shape(2, 2)]),
    "dropout": lambda: dropout.dropout(of_shape(TOKENS, DIM), 0.5, True),
    "linear_cross_entropy": lambda: loss.linear_cross_entropy(
        of_shape(TOKENS, DIM), of_shape(VOCAB, DIM), of_shape(VOCAB), torch.arange(TOKENS)
    ),
    "round_to_int8": lambda: int8.round_to_int8(of_shape(VOCAB, DIM)),
    "Int8Linear.forward": lambda: int8.Int8Linear(torch.nn.Linear(DIM, 16))(of_shape(32, DIM)),
    "Int8Embedding.forward": lambda: int8.Int8Embedding(torch.nn.Embedding(VOCAB, DIM))(torch.arange(5)),
    "largest_scores": lambda: decode.largest_scores(of_shape(3, 700), 2),
    "allowed_tokens": lambda: decode.allowed_tokens(SYMBOLS),
    "pool": lambda: seq2seq.pool(of_shape(TOKENS, DIM), RUNS, "mean"),
    "PlainHead.logits": lambda: a_seq2seq().decoder.head.logits(of_shape(TOKENS, DIM)),
    "DecoderLayer.memory": lambda: a_seq2seq().decoder.layers[0].memory(of_shape(TOKENS, DIM)),
    "Decoder.embed": lambda: a_seq2seq().decoder.embed(of_shape(TOKENS, DIM), torch.arange(TOKENS), None),
    "Seq2SeqModel.loss": lambda: a_seq2seq().loss(of_shape(TOKENS, DIM), torch.arange(TOKENS)),
    "choose": lambda: masking.choose(TEXT, RULE, rng()),
    "choose_positions": lambda: masking.choose_positions(TEXT > 3, 0.5, rng()),
    "span_numbers": lambda: masking.span_numbers(WORDS[1:-1], np.arange(1, 7), rng()),
    "corrupt": lambda: masking.corrupt(TEXT, np.array([1, 3]), RULE, rng()),
    "words_of": lambda: noise.words_of(TEXT, STARTS),
    "mask_tokens": lambda: noise.mask_tokens(TEXT, 0.5, 10, rng()),
    "delete_tokens": lambda: noise.delete_tokens(TEXT, 0.5, rng()),
    "blank_words": lambda: noise.blank_words(TEXT, WORDS, 0.5, 10, rng()),
    "shuffle_words": lambda: noise.shuffle_words(TEXT, WORDS, 3.0, rng()),
    "rotate": lambda: noise.rotate(TEXT, 1.0, rng()),
    "corrupted_spans": lambda: noise.corrupted_spans(20, 0.3, 3.0, rng()),
    "info_nce": lambda: xlco.info_nce(of_shape(3, DIM), of_shape(3, DIM), of_shape(7, DIM), 0.1),
    "sentence_rows": lambda: hictl.sentence_rows(of_shape(3, DIM), of_shape(3, DIM), 0.1, 0.5),
    "harden": lambda: hictl.harden(of_shape(3, DIM), of_shape(3, DIM), of_shape(7, DIM), 0.5),
    "SoftAlignment.forward": lambda: clwr.SoftAlignment(DIM)(of_shape(3, DIM), of_shape(4, DIM)),
    "soft_loss": lambda: distill.soft_loss(of_shape(3, VOCAB), of_shape(3, VOCAB), 2.0),
    "hidden_loss": lambda: distill.hidden_loss(
        [of_shape(TOKENS, DIM)] * 2, [of_shape(TOKENS, 10)] * 3, torch.nn.Linear(DIM, 10)
    ),
    "alternating_lengths": lambda: xmlm.alternating_lengths(
        np.arange(10).reshape(2, 5), np.array([0, 1, 3, 5])
    ),
    "exchange": lambda: clpc.exchange([{"pair_langs": np.array([0, 1])}] * 4, rng()),
    "split_spans": lambda: span_corruption.split_spans(TEXT, 0.3, 2.0, Symbols.of_size(200, ("en",)), rng()),
    "log_softmax_by_group": lambda: heads.log_softmax_by_group(of_shape(5, 2), torch.tensor([0, 0, 1, 1, 1])),
    "match_features": lambda: heads.match_features(of_shape(TOKENS, DIM), torch.arange(TOKENS) % 3, RUNS),
    "unmatched_features": lambda: heads.unmatched_features(
        of_shape(TOKENS, DIM), torch.arange(TOKENS) % 3, RUNS
    ),
    "best_rows": lambda: nearest_neighbours.best_rows(a_matrix(4, DIM), a_matrix(3, DIM), "margin"),
    "centre": lambda: nearest_neighbours.centre(a_matrix(4, DIM)),
    "normalise": lambda: nearest_neighbours.normalise(a_matrix(4, DIM)),
    "mean_of_nearest": lambda: nearest_neighbours.mean_of_nearest(a_matrix(4, DIM), a_matrix(3, DIM), 2),
    "mean": lambda: metrics.mean(np.ones((4, 2))),
    "f1": lambda: metrics.f1(np.ones((4, 3))),
    "with_count": lambda: metrics.with_count([1.0, 0.0, 1.0]),
    "sparse_product": lambda: latent.sparse_product(
        sparse.csr_array(np.eye(5, dtype=np.float32)), of_shape(5, DIM)
    ),
    "contrastive_loss": lambda: train.contrastive_loss(of_shape(4, DIM), of_shape(4, DIM), 0.1, 0.2),
    "rescale": lambda: static_heads.rescale(of_shape(64, 7)),
    "word_shapes": lambda: tagger.word_shapes(["A", "word", "."]),
    "shared_embeddings": lambda: files.shared_embeddings([of_shape(VOCAB, DIM)] * 2, Path("here")),
    "order_of_ids": lambda: t5.order_of_ids(5, 2, [9, 8]),
    "is_member": lambda: paragraphs.is_member(a_key(3, 9, 4), a_key(1, 4)),
    "keys_of": lambda: paragraphs.keys_of("one\ntwo"),
    "grams": lambda: ngrams.grams("one two"),
    "pad_sentences": lambda: model1.pad_sentences(ragged(2, 2), ragged(3, 1), np.arange(2)),
    "optimizer": lambda: adamw.XlingAdamW(adamw.AdamWConfig(lr=[0.1]), [a_gradient()]).clip_grad_norm(1.0),
}


def a_matrix(rows: int, columns: int) -> Any:
    return of_shape(rows, columns).numpy()


def a_key(*numbers: int) -> Any:
    return np.array(numbers, dtype=np.uint64)


def ragged(*lengths: int) -> model1.EncodedSentences:
    return model1.EncodedSentences(np.ones(sum(lengths), dtype=np.int32), np.cumsum([0, *lengths]), 2)


def a_gradient() -> torch.nn.Parameter:
    parameter = torch.nn.Parameter(of_shape(3, 2))
    parameter.grad = of_shape(3, 2)
    return parameter


# Module, function, what stands there, what is planted, and the exercise where its name is not the function's.
PLANTED = [
    (encoder, "projections", "3, layer.heads, -1", "layer.heads, 3, -1"),
    (encoder, "projections", "layer.heads, -1)", "-1, layer.heads)"),
    (encoder, "feed_forward", "layer.down(hidden)", "hidden"),
    (encoder, "scale_embeddings", "else words", "else words.t()"),
    (encoder, "Layer.forward", "value, attention))", "value, attention)).t()"),
    (encoder, "Layer.forward", "attend(query, key, value,", "attend(query, key, value.flatten(1),"),
    (positions, "RelativeBiases.bucket_of", "buckets + num_per_direction *", "buckets / num_per_direction *"),
    (positions, "RelativeBiases.biases_at", "(self.bucket_of(offsets))", "(self.bucket_of(offsets)).t()"),
    (positions, "RelativeBiases.forward", ".flip(1)", ".permute(1, 2, 0)"),
    (encoder, "LMHead.transform", "self.norm(", "self.norm(hidden[:1]) * 0 + self.norm(hidden.new_zeros(1, 1, 1) + "),
    (encoder, "LMHead.logits", "self.bias)", "self.bias).t()"),
    (encoder, "LMHead.loss", "self.bias, target", "self.bias, target[1:]"),
    (encoder, "LMHead.loss", "self.bias, target", "self.bias, target.float()"),
    (encoder, "Encoder.forward", "positions, attention, langs", "positions[:-1], attention, langs"),
    (encoder, "Encoder.forward", "self.tokens(src_tokens)", "self.tokens(src_tokens).t()"),
    (attention, "attend", "for block in outputs])", "for block in outputs]).view(-1, 4)"),
    (attention, "attend_dense", "causal)\n", "causal).transpose(1, 2)\n"),
    (attention, "attend_dense", "(q, k, v,", "(q[:, :, 1:], k, v,"),
    (attention, "sequence_offsets", ".astype(np.int32)", ".astype(np.int64)"),
    (attention, "Attention.masked_bias", ":length, :length]", ":length]"),
    (blocks, "BlockLayout.to_blocks", "part.unflatten(0, shape)", "part"),
    (blocks, "BlockLayout.to_packed", "return packed_rows", "return packed_rows.flatten()"),
    (adapters, "Adapter.forward", "self.up(F.relu(self.down(hidden)))", "self.down(hidden)"),
    (adapters, "InvertibleAdapter.forward", "], -1)", "], 0)"),
    (adapters, "InvertibleAdapter.inverse", "], -1)", "])"),
    (processes, "total_norm", "return norm\n", "return norm[None]\n"),
    (dropout, "dropout", "x * factors", "x * factors @ x.new_ones(x.shape[1], 3)"),
    (loss, "linear_cross_entropy", "return total, losses", "return losses, total"),
    (loss, "linear_cross_entropy", "return total, losses", "return total, losses[:-1]"),
    (loss, "linear_cross_entropy", "return total, losses", "return total.double(), losses"),
    (int8, "round_to_int8", ".to(torch.int8)", ""),
    (int8, "Int8Embedding.forward", " * F.embedding(ids, self.scales)", ".half()"),
    (decode, "largest_scores", "return values, places", "return values[..., :1], places"),
    (decode, "largest_scores", "places.gather(-1, order)", "values"),
    (decode, "allowed_tokens", "dtype=torch.bool", "dtype=torch.uint8"),
    (seq2seq, "pool", "torch.cat(vectors)", "torch.cat(vectors, 1)"),
    (seq2seq, "PlainHead.logits", "self.bias)", "self.bias).t()"),
    (seq2seq, "DecoderLayer.memory", "self.heads, -1)", "-1, self.heads)"),
    (seq2seq, "Decoder.embed", "self.positions(positions)", "self.positions(positions)[:, None]"),
    (seq2seq, "Seq2SeqModel.loss", "head.bias, target", "head.bias[1:], target"),
    (masking, "choose", "return positions[", "return maskable["),
    (masking, "choose", "(groups, positions, rng", "(groups, np.arange(len(tokens)), rng"),
    (masking, "span_numbers", "np.concatenate([[False], (np.diff(spans) > 0)", "np.concatenate([(np.diff(spans) > 0)"),
    (masking, "choose_positions", "[:count]", "[:count] / 1"),
    (masking, "corrupt", "return corrupted", "return corrupted[chosen]"),
    (noise, "words_of", "dtype=np.int64", "dtype=np.float64"),
    (noise, "mask_tokens", "np.where(hit, mask_id, tokens)", "tokens[~hit]"),
    (noise, "blank_words", "np.where(blank, mask_id, tokens)", "np.where(blank, -np.inf, tokens)"),
    (noise, "shuffle_words", "tokens[order]", "tokens[order[words >= 0]]"),
    (noise, "rotate", ", tokens[end:]]", "]"),
    (noise, "corrupted_spans", "np.full(num_tokens, -1)", "np.full(num_tokens + 1, -1)"),
    (xlco, "info_nce", "logsumexp(logits, 1)", "logsumexp(logits, 1, keepdim=True)"),
    (xlco, "info_nce", "logits[:, 0]", "logits[:, :1].t()"),
    (hictl, "sentence_rows", "logsumexp(logits, 1)", "logsumexp(logits, 1, keepdim=True)"),
    (hictl, "sentence_rows", "harden(query, key, key, zeta)", "harden(query, key[:2], key, zeta)"),
    (clwr, "SoftAlignment.forward", "torch.softmax(scores.float(), -1)", "torch.softmax(scores.float().t(), -1)"),
    (distill, "soft_loss", ".sum(-1)", ".sum(0)"),
    (distill, "hidden_loss", ".mean()", ""),
    (xmlm, "alternating_lengths", "whole[0])])", "whole[0])], 1)"),
    (clpc, "exchange", ".astype(np.int64)", ""),
    (span_corruption, "split_spans", "np.append(target, EOS)", "np.append(target, np.nan)"),
    (heads, "match_features", "u * v], 1)", "u * v])"),
    (heads, "unmatched_features", "for x in residuals_by_text", "for x in residuals_by_text[:1]"),
    (heads, "log_softmax_by_group", "total.log()[groups]", "total.log()[groups].unsqueeze(1)"),
    (nearest_neighbours, "best_rows", "block[np.arange(len(block)), best]", "block"),
    (nearest_neighbours, "best_rows", "return np.concatenate(rows), ", "return np.concatenate(scores), "),
    (nearest_neighbours, "centre", "np.where(moved.any(axis=1, keepdims=True), moved, vectors)", "moved.T"),
    (nearest_neighbours, "normalise", ", dtype=np.float32)", ", dtype=np.float64)"),
    (nearest_neighbours, "mean_of_nearest", ".mean(axis=1)", ".mean(axis=0)"),
    (metrics, "mean", "sums[..., 0], sums[..., 1]", "sums[0], sums[1]"),
    (metrics, "with_count", "axis=1", "axis=0"),
    (latent, "sparse_product", "per_sample_weights=values)", "per_sample_weights=values).t()"),
    (train, "contrastive_loss", "(scores.T, targets)", "(scores.T, targets, reduction='none')"),
    (static_heads, "rescale", "features.std(0)", "features.std(1)[:, None, None]"),
    (tagger, "word_shapes", "len(words), NUM_SHAPE_FEATURES", "NUM_SHAPE_FEATURES, len(words), 1"),
    (files, "shared_embeddings", "return tables[0].float()", "return tables[0].double()"),
    (t5, "order_of_ids", "*sentinels])", "*sentinels])[:, None]"),
    (paragraphs, "is_member", "sorted_keys[places] == keys", "sorted_keys == keys[:, None]"),
    (paragraphs, "keys_of", ".reshape(-1)", ".reshape(-1, 1)"),
    (ngrams, "grams", "order: hashes for", "order: hashes[:, None] for"),
    (model1, "pad_sentences", "f.astype(np.int32)", "f.T.astype(np.int32)"),
    (adamw, "XlingAdamW.clip_grad_norm", "return norm_on_cpu", "return norm_on_cpu.expand(1)", "optimizer"),
]  # fmt: skip


@pytest.mark.parametrize("name", EXERCISES)
def test_what_is_right_passes(name: str) -> None:
    EXERCISES[name]()


def planted(module: Any, name: str, old: str, new: str) -> Callable[..., Any]:
    """A function of a module with a part of its source replaced, checked like the others."""
    owner: Any = module
    for part in name.split(".")[:-1]:
        owner = getattr(owner, part)
    there = inspect.getattr_static(owner, name.rpartition(".")[2])
    function = inspect.unwrap(there)
    source = textwrap.dedent("".join(inspect.getsource(function)))
    assert source.count(old) == 1, f"{old!r} stands {source.count(old)} times in {name}"
    tree = ast.parse(source.replace(old, new))
    tree.body[0].decorator_list.clear()  # type: ignore[attr-defined]
    scope = dict(vars(module))
    exec(compile(tree, f"<planted {name}>", "exec", dont_inherit=True, flags=_ANNOTATIONS), scope)
    made = scope[function.__name__]
    assert isinstance(made, FunctionType)
    return shape_checks.checked(made, vars(module))


_ANNOTATIONS = __import__("__future__").annotations.compiler_flag


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: f"{plant[1]}: {plant[3]}")
def test_planted_fault_is_caught(plant: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    module, name, old, new = plant[:4]
    owner: Any = module
    for part in name.split(".")[:-1]:
        owner = getattr(owner, part)
    monkeypatch.setattr(owner, name.rpartition(".")[2], planted(module, name, old, new))
    exercise = "optimizer" if "optimizer" in plant[4:] else name
    with pytest.raises(TypeCheckError):
        EXERCISES[exercise]()


def test_fifty_faults_are_planted_and_some_in_every_room_that_has_arrays() -> None:
    assert len(PLANTED) >= 50
    rooms = {module.__name__.split(".")[1] for module, *_ in PLANTED}
    there = {
        path.relative_to(ROOT / "xling").parts[0]
        for path, source in SOURCES.items()
        if ROOT / "xling" in path.parents
        and path.parent != ROOT / "xling"
        and "from xling.array_types" in source
    }
    # Neither text nor training has a public function of an array; papers holds plug-ins.
    assert rooms >= {"corpora", "eval"} | there - {"text", "training", "papers"}


def test_every_module_is_imported_with_the_checks_unless_they_are_switched_off() -> None:
    is_on = os.environ.get("XLING_SHAPES") != "0"
    modules = {name: module for name, module in sys.modules.items() if name.startswith("xling.")}
    rooms = {name.split(".")[1] for name in modules}
    assert rooms >= {"corpora", "eval", "hub", "models", "training", "transfer"}
    loaders = {name: type(module.__spec__.loader) for name, module in modules.items() if module.__spec__}
    assert [name for name, loader in loaders.items() if (loader is shape_checks._Loader) != is_on] == []


def test_production_does_not_import_the_checks(python: Callable[..., Any]) -> None:
    modules = "sys, xling.models.network.seq2seq, xling.objectives"
    code = f"import {modules}; print({{'jaxtyping', 'beartype'}} & {{*sys.modules}})"
    assert python("-c", code).stdout.strip() == "set()"
    assert importlib.util.find_spec("jaxtyping") and "jaxtyping" in sys.modules

"""Beam search against stock fairseq with the same weights, on one CPU: sentences/s, tokens/s, equal outputs.

Run:  python -m benchmarks.generate [--sentences N] [--blocks N] [--beam N] [--batch-tokens N] [--threads N]
                                    [--layers N] [--dim N] [--pieces N] [--checkpoint DIR --source FILE --src L --tgt L]

Stock is fairseq's TransformerModel and SequenceGenerator in float32, fed as fairseq-generate feeds them: sorted by
length, padded at the left, batches of as many source tokens. Both systems search the same sources with the same
weights and take turns block by block in one process; processor seconds count, for a shared machine. Without
``--checkpoint`` the weights are random, with ``</s>`` made likelier with every position so that outputs end at about
the length of a caption, and the sources are random pieces: SYNTHETIC. A checkpoint must have ``plain_head`` and
post-norm layers. Prints Markdown.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
import warnings
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary, data_utils
from fairseq.models.transformer import TransformerModel, base_architecture
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks import FairseqTask

from xling.core.sampling import rng
from xling.data.symbols import Symbols
from xling.models import checkpoint
from xling.models.generate import EOS, PAD, allowed_tokens, generate_all
from xling.models.search import Search
from xling.models.seq2seq import Seq2SeqConfig, Seq2SeqModel

TIE = 1e-4
LENGTH = 18  # at which a synthetic output is as likely to end as not, about


def synthetic(args: Namespace) -> tuple[Seq2SeqModel, Symbols, list[np.ndarray]]:
    """Return a random model whose outputs end, and random sources of the lengths of captions."""
    symbols = Symbols(args.pieces, ("de", "en"))
    torch.manual_seed(1)
    shape = {"layers": args.layers, "dim": args.dim, "heads": args.dim // 64, "ffn_dim": 4 * args.dim}
    model = Seq2SeqModel(Seq2SeqConfig(**shape, max_positions=256, plain_head=True), symbols.size)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1:
                weight.normal_(std=0.2 if "cross" in name else 0.08)
        direction = model.encoder.tokens.weight[EOS]
        direction *= 5 / direction.norm()
        steps = (torch.arange(256) - LENGTH)[:, None] / LENGTH
        model.decoder.positions.weight += steps * direction / 2
    draw = rng("sources")
    lengths = np.clip(draw.normal(16, 5, args.sentences).round(), 4, 60).astype(int)
    return model, symbols, [draw.integers(4, symbols.mask, n) for n in lengths]


def trained(args: Namespace) -> tuple[Seq2SeqModel, Symbols, list[np.ndarray]]:
    """Return a published model and the sentences of a file."""
    from xling.transfer.translate import Translator

    model, symbols = checkpoint.load_seq2seq(Path(args.checkpoint))
    splitter = Translator(Path(args.checkpoint), Search(), cut=True)
    lines = Path(args.source).read_text(encoding="utf-8").split("\n")[: args.sentences]
    return model, symbols, [splitter.split(line)[0] for line in lines if line.strip()]


class _Task(FairseqTask):
    def __init__(self, dictionary: Dictionary) -> None:
        super().__init__(None)
        self.source_dictionary_ = dictionary

    @property
    def source_dictionary(self) -> Dictionary:
        return self.source_dictionary_

    target_dictionary = source_dictionary


def stock_of(model: Seq2SeqModel, symbols: Symbols) -> tuple[TransformerModel, Dictionary]:
    """Return Fairseq's Transformer with the weights of ``model``."""
    cfg = model.cfg
    assert cfg.plain_head and not cfg.pre_norm, "the stock model has a plain head and norms behind"
    assert not model.decoder.head.bias.any(), "the stock model has no output bias"
    dictionary = Dictionary()
    for number in range(4, symbols.size):
        dictionary.add_symbol(f"piece{number}")
    args = Namespace(
        encoder_embed_dim=cfg.dim, encoder_ffn_embed_dim=cfg.ffn_dim, encoder_layers=cfg.layers,
        encoder_attention_heads=cfg.heads, decoder_attention_heads=cfg.heads,
        decoder_layers=len(model.decoder.layers), share_all_embeddings=True,
        encoder_learned_pos=True, decoder_learned_pos=True, layernorm_embedding=True, no_scale_embedding=True,
        activation_fn="gelu", max_source_positions=cfg.max_positions, max_target_positions=cfg.max_positions,
    )  # fmt: skip
    base_architecture(args)
    stock = TransformerModel.build_model(args, _Task(dictionary))
    stock.load_state_dict(stock_weights(model) | {"encoder.version": torch.ones(1)}, strict=False)
    return stock.eval(), dictionary


def stock_weights(model: Seq2SeqModel) -> dict[str, torch.Tensor]:
    """Return our weights under fairseq's names."""
    weights: dict[str, torch.Tensor] = {"decoder.output_projection.weight": model.encoder.tokens.weight}
    for side, ours in (("encoder", model.encoder), ("decoder", model.decoder)):
        positions = ours.positions.weight
        weights[f"{side}.embed_tokens.weight"] = model.encoder.tokens.weight
        weights[f"{side}.embed_positions.weight"] = torch.cat(
            [positions.new_zeros(PAD + 1, positions.shape[1]), positions]
        )
        names = {f"{side}.layernorm_embedding": ours.norm}
        for number, layer in enumerate(ours.layers):
            prefix = f"{side}.layers.{number}."
            names |= {
                f"{prefix}self_attn.out_proj": layer.out,
                f"{prefix}self_attn_layer_norm": layer.attn_norm,
                f"{prefix}fc1": layer.up,
                f"{prefix}fc2": layer.down,
                f"{prefix}final_layer_norm": layer.ffn_norm,
            }
            split = [("self_attn", "qkv", layer.qkv)]
            if side == "decoder":
                names |= {
                    f"{prefix}encoder_attn.q_proj": layer.cross_query,
                    f"{prefix}encoder_attn.out_proj": layer.cross_out,
                    f"{prefix}encoder_attn_layer_norm": layer.cross_norm,
                }
                split.append(("encoder_attn", "kv", layer.cross_kv))
            for attention, parts, linear in split:
                for kind in ("weight", "bias"):
                    for part, piece in zip(parts, getattr(linear, kind).chunk(len(parts)), strict=True):
                        weights[f"{prefix}{attention}.{part}_proj.{kind}"] = piece
        for name, module in names.items():
            weights |= {f"{name}.weight": module.weight, f"{name}.bias": module.bias}
    return {name: tensor.detach() for name, tensor in weights.items()}


def search_stock(
    stock: TransformerModel,
    dictionary: Dictionary,
    symbols: Symbols,
    sources: list[np.ndarray],
    search: Search,
    batch_tokens: int,
) -> list[tuple[list[int], float]]:
    """Return the best output of each source and its score, found by fairseq."""
    searcher = SequenceGenerator(
        [stock], dictionary, beam_size=search.beam, max_len_a=search.max_len_a, max_len_b=search.max_len_b,
        symbols_to_strip_from_output=None,
    ).to(next(stock.parameters()).device)  # fmt: skip
    device = next(stock.parameters()).device
    barred = ~allowed_tokens(symbols).to(device)
    plain = type(stock).get_normalized_probs

    def without_barred(*given: Any, **named: Any) -> torch.Tensor:
        return plain(stock, *given, **named).masked_fill(barred, -torch.inf)

    stock.get_normalized_probs = without_barred  # as ours: no symbol in an output
    best: list[tuple[list[int], float]] = [([], 0.0)] * len(sources)
    order = sorted(range(len(sources)), key=lambda i: -len(sources[i]))
    start = 0
    while start < len(order):
        batch = order[start : start + max(1, batch_tokens // (len(sources[order[start]]) + 2))]
        rows = [torch.tensor([*sources[i], EOS, symbols.lang(1)]) for i in batch]
        tokens = data_utils.collate_tokens(rows, PAD, EOS, left_pad=True)
        lengths = torch.tensor([len(row) for row in rows])
        with torch.no_grad():
            results = searcher.generate(
                [stock],
                {"net_input": {"src_tokens": tokens.to(device), "src_lengths": lengths.to(device)}},
                bos_token=symbols.lang(0),
            )
        for number, hypotheses in zip(batch, results, strict=True):
            best[number] = hypotheses[0]["tokens"][:-1].tolist(), float(hypotheses[0]["score"])
        start += len(batch)
    return best


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in (
        ("sentences", 200), ("blocks", 5), ("beam", 5), ("batch-tokens", 1024), ("threads", 1), ("layers", 3),
        ("dim", 256), ("pieces", 8000),
    ):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=default)
    for name in ("checkpoint", "source", "src", "tgt"):
        parser.add_argument(f"--{name}", default="")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(args.threads)
    model, symbols, sources = trained(args) if args.checkpoint else synthetic(args)
    model.eval()
    stock, dictionary = stock_of(model, symbols)
    search = Search(beam=args.beam, max_len_a=0, max_len_b=60)
    src, tgt = [1] * len(sources), [0] * len(sources)

    rounded = copy.deepcopy(model).to(torch.bfloat16)

    def ours(which: Seq2SeqModel) -> list[tuple[list[int], float]]:
        results = generate_all(which, sources, src, tgt, symbols, search, args.batch_tokens)
        return [(hypotheses[0].tokens.tolist(), hypotheses[0].score) for hypotheses in results]

    systems: dict[str, Callable[[], list[tuple[list[int], float]]]] = {
        "fairseq": lambda: search_stock(stock, dictionary, symbols, sources, search, args.batch_tokens),
        "xling": lambda: ours(model),
        "xling, bfloat16": lambda: ours(rounded),
    }
    outputs = {name: system() for name, system in systems.items()}  # also warms up
    seconds: dict[str, list[float]] = {name: [] for name in systems}
    for _ in range(args.blocks):
        for name, system in systems.items():
            begin = time.process_time()
            system()
            seconds[name].append(time.process_time() - begin)
    written = sum(len(tokens) + 1 for tokens, _ in outputs["xling"])
    print(f"beam {args.beam}, {len(sources)} sentences, {written / len(sources):.1f} tokens written for each, "
          f"{args.threads} thread(s), torch {torch.__version__}, processor seconds\n")  # fmt: skip
    print("| system | sentences/s | tokens/s | s, median (least to most) |\n| --- | --- | --- | --- |")
    for name, times in seconds.items():
        middle = statistics.median(times)
        spread = f"{middle:.2f} ({min(times):.2f} to {max(times):.2f})"
        print(f"| {name} | {len(sources) / middle:.1f} | {written / middle:,.0f} | {spread} |")
    for name in list(systems)[1:]:
        ratios = [a / b for a, b in zip(seconds["fairseq"], seconds[name], strict=True)]
        pairs = list(zip(outputs["fairseq"], outputs[name], strict=True))
        same = sum(a == b for (a, _), (b, _) in pairs)
        ties = sum(a != b and abs(x - y) < TIE for (a, x), (b, y) in pairs)
        print(f"\n{name}: {statistics.median(ratios):.2f} times as fast ({min(ratios):.2f} to {max(ratios):.2f}); of "
              f"{len(sources)} outputs {same} equal, {ties} others within {TIE} nats of fairseq's score.")  # fmt: skip


if __name__ == "__main__":
    main()

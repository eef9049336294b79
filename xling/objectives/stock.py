"""The answers of a task to `fairseq-generate`, `fairseq-interactive` and `fairseq-eval-lm`, by our own search.

The outputs of the first two are those of ``xling translate`` at the same settings. Note that the defaults differ: of
fairseq ``--max-len-a 0 --max-len-b 200``, of ours ``max_len_a=1.5 max_len_b=10``. Where a command or an option has no
meaning for a task, one line says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from fairseq.data import Dictionary, FairseqDataset, data_utils

from xling import compat
from xling.array_types import Float32, Int
from xling.core import languages
from xling.core.errors import UserError
from xling.data.packing import pack_seq2seq, to_device
from xling.data.symbols import Symbols
from xling.models.generate.decode import Hypothesis, generate_all, source_example
from xling.models.generate.settings import Search
from xling.objectives.dataset import NO_LIMIT, batches_of
from xling.objectives.declared import with_decoder
from xling.text.files import shards

EOS, PAD = 2, 1
# Options of fairseq's generation that our search does not have, with the values that ask for nothing.
_UNSUPPORTED: dict[str, tuple[Any, ...]] = {
    "match_source_len": (False,), "unnormalized": (False,), "replace_unk": (None,), "score_reference": (False,),
    "prefix_size": (0,), "no_repeat_ngram_size": (0,), "sampling_topp": (-1.0,), "constraints": (None,),
    "diverse_beam_groups": (-1,), "diversity_rate": (-1.0,), "print_alignment": (None, False), "lm_path": (None,),
    "retain_dropout": (False,), "print_step": (False,),
}  # fmt: skip


def stop(given: str, valid: str = "", fix: str = "") -> NoReturn:
    """End a command of fairseq with the line of a `UserError` instead of a traceback."""
    raise SystemExit(f"xling: {UserError(given, valid, fix)}")


class Generator:
    """The search that `fairseq-generate` is given: direction and settings.

    Attributes:
        eos: id of ``</s>``, which fairseq strips from the outputs.
    """

    eos = EOS

    def __init__(self, src: int, tgt: int, search: Search, symbols: Symbols) -> None:
        self.src, self.tgt, self.search, self.symbols = src, tgt, search, symbols

    def __call__(self, model: Any, sources: Sequence[Int[np.ndarray, " _"]]) -> list[list[dict[str, Any]]]:
        """Return the hypotheses of each source as fairseq's SequenceGenerator gives them."""
        count = len(sources)
        search, langs = self.search, ([self.src] * count, [self.tgt] * count)
        outputs = generate_all(model, sources, *langs, self.symbols, search)
        return [
            [self._described(model, source, each) for each in hypotheses]
            for source, hypotheses in zip(sources, outputs, strict=True)
        ]

    def _described(self, model: Any, source: Int[np.ndarray, " _"], output: Hypothesis) -> dict[str, Any]:
        tokens = np.append(output.tokens, EOS).astype(np.int64)
        return {
            "tokens": torch.from_numpy(tokens),
            "score": torch.tensor(output.score),
            "attention": None,
            "alignment": torch.empty(0, 2, dtype=torch.long),
            "positional_scores": self._scores(model, source, tokens),
        }

    def _scores(
        self, model: Any, source: Int[np.ndarray, " source"], tokens: Int[np.ndarray, " target"]
    ) -> Float32[torch.Tensor, " target"]:
        """Return the log-probability of each token of an output given those before it, float32 (target,), in nats."""
        prompt = self.symbols.prompt(self.tgt)
        target = np.concatenate([prompt[1:], tokens]).astype(np.int64)
        read = {
            "prev_tokens": np.concatenate([prompt[:1], target[:-1]]),
            "prev_positions": np.arange(len(target)),
            "prev_langs": np.full(len(target), self.tgt),
            "target": target,
        }
        sample = pack_seq2seq([source_example(source, self.src, 0, self.symbols) | read])
        device = model.encoder.tokens.weight.device
        model.eval()
        with torch.inference_mode():
            states = model(**to_device(sample["net_input"], device))
            _, losses = model.loss(states, sample["target"].to(device))
        return -losses.float().cpu()[-len(tokens) :]


@cache
def load_sentences() -> Any:
    """Make the class of sentences to translate; a training has no use for what it derives from."""
    from fairseq.data import LanguagePairDataset

    class Sentences(LanguagePairDataset):  # type: ignore[misc]
        """Sentences to translate, right-padded, in batches that hold all of them.

        Cause: fairseq's own batches leave out the last sentences where they are no multiple of 8.
        """

        def __init__(self, *sides: Any) -> None:
            super().__init__(*sides, left_pad_source=False, left_pad_target=False, shuffle=False)

        def batch_by_size(
            self,
            indices: Int[np.ndarray, " examples"],
            max_tokens: int | None = None,
            max_sentences: int | None = None,
            required_batch_size_multiple: int = 1,
        ) -> list[Int[np.ndarray, " _"]]:
            """Return batches of at most ``max_tokens`` real tokens and ``max_sentences``, in the given order."""
            sizes = np.array([self.num_tokens(int(index)) for index in indices], dtype=np.int64)
            return batches_of(sizes, np.asarray(indices), max_tokens or NO_LIMIT, max_sentences or NO_LIMIT)

    return Sentences


class StockCommands:
    """The part of a task that serves `fairseq-generate`, `fairseq-interactive` and `fairseq-eval-lm`."""

    cfg: Any
    data: Path
    dictionary: Dictionary
    langs: list[str]
    objectives: dict[str, Any]

    def direction(self) -> tuple[str, str]:
        """Return the languages of ``--source-lang`` and ``--target-lang``.

        Raises:
            SystemExit: one of them is not given or not trained, or no objective of the task has a decoder.
        """
        names = list(self.objectives)
        if not any(entry.decoder for entry in self.objectives.values()):
            stop(
                f"xling_{names[0]} trains an encoder, which writes no text",
                f"a task with a decoder: {', '.join(f'xling_{name}' for name in sorted(with_decoder()))}",
                "score the encoder with `xling eval`",
            )
        sides = [languages.find(code, self.langs) for code in (self.cfg.source_lang, self.cfg.target_lang)]
        for option, code, lang in zip(
            ("source", "target"), (self.cfg.source_lang, self.cfg.target_lang), sides, strict=True
        ):
            if lang is None:
                stop(
                    f"--{option}-lang {code or '(not given)'}",
                    ", ".join(self.langs),
                    "give --source-lang and --target-lang, languages that the model was trained on",
                )
        return str(sides[0]), str(sides[1])

    def dataset_of_direction(self, split: str) -> FairseqDataset:
        """Return the sentence pairs of a split in the direction that is asked for, for `fairseq-generate`."""
        src, tgt = self.direction()
        pair = next((p for p in (f"{src}-{tgt}", f"{tgt}-{src}") if p in shards.list_pairs(self.data)), None)
        if pair is None:
            stop(
                f"no sentence pairs of {src} and {tgt} in {self.data}",
                ", ".join(shards.list_pairs(self.data)) or "a directory with pairs",
                f"translate text with fairseq-interactive, or run `xling binarize` with pairs.{src}-{tgt}=SRC,TGT",
            )
        texts = [
            data_utils.load_indexed_dataset(
                str(self.data / pair / f"{split}.{pair}.{lang}"), self.dictionary, "mmap"
            )
            for lang in (src, tgt)
        ]
        if None in texts:
            stop(f"no split {split!r} of {pair} in {self.data}", "train or valid", "--gen-subset valid")
        first, second = texts
        return load_sentences()(first, first.sizes, self.dictionary, second, second.sizes, self.dictionary)

    def build_dataset_for_inference(
        self, src_tokens: list[Any], src_lengths: list[int], **kwargs: Any
    ) -> FairseqDataset:
        """Return the sentences that were typed into `fairseq-interactive`."""
        return load_sentences()(src_tokens, src_lengths, self.dictionary)

    def build_generator(self, models: Sequence[Any], args: Any, **kwargs: Any) -> Generator:
        """Return the search of `fairseq-generate` and `fairseq-interactive`."""
        compat.stand_in_for_bleu()
        src, tgt = self.direction()
        for name, nothing in _UNSUPPORTED.items():
            if (value := getattr(args, name, nothing[0])) not in nothing:
                option = name.replace("_", "-")
                stop(f"--{option} {value}: our search has no such option", fix="leave it out")
        if len(models) > 1:
            stop(f"--path names {len(models)} models", "one model")
        if not args.sampling and args.temperature != 1:
            stop(f"--temperature {args.temperature} without --sampling", "--sampling beside it")
        model, cfg = models[0], models[0].cfg
        if (
            model.encoder.tokens.weight.dtype == torch.bfloat16
        ):  # that of the training; `xling translate` uses fp32
            model.float()
        symbols = Symbols.of_size(len(self.dictionary), self.langs, cfg.source_lang, cfg.lang_first)
        try:
            search = Search(
                beam=args.beam, length_penalty=args.lenpen, max_len_a=args.max_len_a, max_len_b=args.max_len_b,
                min_len=args.min_len, sample=args.sampling, top_k=max(args.sampling_topk, 0),
                temperature=args.temperature,
            )  # fmt: skip
        except UserError as error:
            stop(error.given, error.valid, error.fix)
        return Generator(self.langs.index(src), self.langs.index(tgt), search, symbols)

    def inference_step(
        self,
        generator: Generator,
        models: Sequence[Any],
        sample: dict[str, Any],
        prefix_tokens: Any = None,
        constraints: Any = None,
    ) -> list[list[dict[str, Any]]]:
        """Translate a padded batch and return the hypotheses of each row, best first."""
        rows = sample["net_input"]["src_tokens"].cpu().numpy().astype(np.int64)
        return generator(models[0], [row[(row != PAD) & (row != EOS)] for row in rows])

    def eval_lm_dataloader(self, dataset: Any, context_window: int = 0, **limits: Any) -> PaddedBatches:
        """Return padded batches for `fairseq-eval-lm`: blocks of the split, of which all but ``<s>`` are predicted."""
        names = list(self.objectives)
        if names != ["clm"] or context_window:
            what = f"--context-window {context_window}" if names == ["clm"] else f"the task xling_{names[0]}"
            stop(
                f"fairseq-eval-lm has no meaning for {what}",
                "xling_clm, whose model predicts the next piece, without --context-window",
                "score other models with `xling eval`",
            )
        chosen = {key: limits[key] for key in ("max_tokens", "num_shards", "shard_id", "num_workers")}
        batches = self.get_batch_iterator(  # type: ignore[attr-defined]
            dataset=dataset, max_sentences=limits.get("batch_size"), **chosen
        )
        return PaddedBatches(batches.next_epoch_itr(shuffle=False))


class PaddedBatches:
    """The batches of an iterator of fairseq, each padded; see `_padded`."""

    def __init__(self, packed: Any) -> None:
        self._packed = packed

    def __len__(self) -> int:
        return len(self._packed)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (_padded(packed) for packed in self._packed if packed)


def _padded(packed: dict[str, Any]) -> dict[str, Any]:
    """Return a packed batch of blocks (N,) as fairseq's scorer reads it: inputs and targets (batch, longest - 1)."""
    inputs = packed["net_input"]
    lengths = [length for count, length in inputs["runs"] for _ in range(count)]
    rows = inputs["src_tokens"].split(lengths)
    langs = [row[:1] for row in inputs["langs"].split(lengths)]

    pad = partial(torch.nn.utils.rnn.pad_sequence, batch_first=True, padding_value=PAD)
    return {
        "id": packed["id"],
        "nsentences": len(rows),
        "ntokens": sum(lengths) - len(rows),
        "net_input": {
            "src_tokens": pad([row[:-1] for row in rows]),
            "src_lengths": torch.tensor(lengths) - 1,
            "langs": torch.cat(langs),
        },
        "target": pad([row[1:] for row in rows]),
    }

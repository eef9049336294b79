"""Unsupervised translation.

Train on monolingual text, select without parallel text, score at the end: ``xling umt``.

Training is `xling.training.train` on the objective ``umt`` combined with ``dae`` or ``mass``, both in every
update. It resumes exactly after a kill. At every validation held-out sentences are translated there and back
(`xling.transfer.translation.without_references`): the best model is kept, and a collapsed run stops. The test sets
are read after training.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sacrebleu.metrics.bleu import BLEU

from xling.core.errors import UserError
from xling.core.languages import split_pair
from xling.core.output import manifest
from xling.core.output.command_result import tell
from xling.data.symbols import Symbols
from xling.models.distributed import processes
from xling.models.files import model_weights
from xling.models.generate.settings import Search
from xling.objectives.base import load_dictionary
from xling.objectives.umt import count_pieces
from xling.text import vocab, word_translation
from xling.text.files import shards
from xling.training import train
from xling.training.settings import PretrainConfig
from xling.transfer import plans
from xling.transfer.plans import read_aligned
from xling.transfer.settings import UmtConfig
from xling.transfer.translation import train_and_score
from xling.transfer.translation.supervised import bleu_and_chrf
from xling.transfer.translation.translate import Translator
from xling.transfer.translation.without_references import Examiner, HeldOut, check_not_collapsed

TOKEN_PATTERN = re.compile(r"\w+|[^\w\s]")
SELECTION_TEXTS = {
    "two_way": "two_way: round trips of monolingual text, no parallel text",
    "oracle": "ORACLE: BLEU on parallel text, so this run is not unsupervised",
    "last": "last: the weights of the last update",
}


def warn_if_no_shared_pieces(data: Path, pair: str) -> None:
    """Warn on standard error if the texts of the two languages have no piece in common."""
    langs = list(split_pair(pair))
    counts = count_pieces(data, langs, len(load_dictionary(data)))
    if not bool((counts > 0).all(0).any()):
        tell(
            f"xling: warning: {' and '.join(langs)} share no vocabulary item: nothing connects the two at the "
            "start, so expect a BLEU near 0 unless the checkpoint saw translations or dictionaries are given"
        )


class ValidationWatcher:
    """Validation callback that measures a model, keeps the best one, and stops a collapsed run.

    It warns first of languages that share no vocabulary item.
    """

    def __init__(self, cfg: UmtConfig, settings: PretrainConfig) -> None:
        self.cfg, self.langs, data = cfg, list(settings.langs), Path(cfg.data)
        for pair in cfg.pairs:
            warn_if_no_shared_pieces(data, pair)
        self.processor = vocab.load_processor(data)
        symbol_settings = {name: getattr(settings.model, name) for name in ("source_lang", "lang_first")}
        symbols = Symbols(len(load_dictionary(data)) - 1, tuple(self.langs), **symbol_settings)
        pairs = [split_pair(pair) for pair in cfg.pairs]
        lang_index_pairs = [(self.langs.index(a), self.langs.index(b)) for a, b in pairs]
        self.directions = [f"{a}-{b}" for pair in pairs for a, b in (pair, pair[::-1])]
        self.oracle = {
            pair: read_aligned(pair, Path(two[0]), Path(two[1])) for pair, two in cfg.oracle.items()
        }
        if cfg.select == "oracle" and not self.oracle:
            raise UserError(
                "select=oracle without parallel text to select by",
                "a pair of files",
                "oracle.SRC-TGT=SRC,REF",
            )
        held_out = {
            lang: self.held_out_sentences(data, self.langs[lang])
            for pair in lang_index_pairs
            for lang in pair
        }
        self.examiner = Examiner(held_out, lang_index_pairs, symbols, self.processor, Search(beam=1))

    def held_out_sentences(self, data: Path, lang: str) -> HeldOut:
        """Return held-out sentences of a language.

        Raises:
            UserError: there are none.
        """
        shard = shards.open_shard(data / lang / "valid")
        starts, sizes = shard.starts(), shard.sizes
        rows = [i for i in range(len(sizes)) if sizes[i] > 1][: self.cfg.valid_lines]
        if not rows:
            raise UserError(
                f"no held-out text in {lang} in {data}", fix="give `xling binarize` more text, or valid_docs="
            )
        tokens = [shard.tokens[starts[i] : starts[i] + sizes[i] - 1].astype(np.int64) for i in rows]
        return HeldOut(tokens, [str(self.processor.decode([int(i) - 1 for i in t if i > 3])) for t in tokens])

    def __call__(self, trainer: Any, partial_folder: Path) -> dict[str, float]:
        """Return the numbers of this validation; see `Examiner` and, with ``oracle``, BLEU as ``oracle``."""
        model, update = trainer.get_model(), trainer.get_num_updates()
        measured = self.examiner(model)
        if self.oracle:
            bleus = [self.bleu(model, pair, *two) for pair, two in self.oracle.items()]
            measured |= {f"{pair}/oracle": bleu for pair, bleu in zip(self.oracle, bleus, strict=True)}
            measured["oracle"] = sum(bleus) / len(bleus)
        past_validations = read_validations(partial_folder / "log.jsonl")
        criterion = self.cfg.select
        if (
            criterion != "last"
            and measured[criterion] > max((event[criterion] for event in past_validations), default=-1.0)
            and processes.rank() == 0
        ):
            temporary = partial_folder / "selected.tmp"
            model_weights.save_model(temporary, model, self.langs, Path(self.cfg.data))
            temporary.replace(partial_folder / train.SELECTED)
        check_not_collapsed(
            [*past_validations, {"update": update, **measured}], self.directions, self.cfg.collapse
        )
        return measured

    def bleu(self, model: Any, pair: str, sources: Sequence[str], references: Sequence[str]) -> float:
        """Compute BLEU of the current weights on parallel text."""
        src, tgt = (self.langs.index(lang) for lang in split_pair(pair))
        tokens = [
            np.array([3 if i == 0 else i + 1 for i in ids], dtype=np.int64)
            for ids in self.processor.encode(list(sources))
        ]
        outputs = self.examiner.decode_texts(self.examiner.translate_pieces(model, tokens, src, tgt))
        return float(str(bleu_and_chrf(outputs, references, split_pair(pair)[1])["bleu"]))


def read_validations(log: Path) -> list[dict[str, Any]]:
    """Return the validations of a run so far, in order."""
    lines = log.read_text(encoding="utf-8").splitlines() if log.is_file() else []
    return [event for event in map(json.loads, lines) if event["split"] == "valid" and "two_way" in event]


def selection_summary(cfg: UmtConfig, log: Path) -> dict[str, Any]:
    """Summarise how the model was selected, the criterion over time, and what an oracle would have chosen."""
    all_validations = read_validations(log)
    selection: dict[str, Any] = {"selection": SELECTION_TEXTS[cfg.select], "test": {}}
    selected = (
        all_validations[-1]
        if cfg.select == "last"
        else max(all_validations, key=lambda event: event[cfg.select])
    )
    selection["update"] = selected["update"]
    selection["two_way"] = {event["update"]: event["two_way"] for event in all_validations}
    if cfg.oracle:
        best_by_oracle = max(all_validations, key=lambda event: event["oracle"])
        selection["oracle"] = {event["update"]: round(event["oracle"], 2) for event in all_validations}
        selection["behind_oracle"] = round(best_by_oracle["oracle"] - selected["oracle"], 2)
    return selection


def score_test_set(
    cfg: UmtConfig,
    translator: Translator,
    pair: str,
    sources: Sequence[str],
    references: Sequence[str],
    folder: Path,
) -> dict[str, Any]:
    """Compute BLEU in both conventions for the model and for the baselines copy and word-by-word."""
    src, tgt = split_pair(pair)
    outputs = {"model": translator(sources, src, tgt), "copy": list(sources)}
    word_translator = word_translation.read_translators(cfg.back.get("dictionaries", "")).get((src, tgt))
    if word_translator is not None:
        outputs["word_by_word"] = [word_translator(text) for text in sources]
    (folder / f"test.{pair}.txt").write_text(
        "".join(f"{line}\n" for line in outputs["model"]), encoding="utf-8"
    )
    return {
        name: {**bleu_and_chrf(texts, references, tgt), "tokenised_bleu": tokenised_bleu(texts, references)}
        for name, texts in outputs.items()
    }


def tokenised_bleu(outputs: Sequence[str], references: Sequence[str]) -> float:
    """Compute BLEU of lower-cased words and single marks, as in published figures, though their tokenisers differ."""
    tokenised = [
        [" ".join(TOKEN_PATTERN.findall(line.lower())) for line in side] for side in (outputs, references)
    ]
    return float(BLEU(tokenize="none", force=True).corpus_score(tokenised[0], [tokenised[1]]).score)


def format_scores(scores: dict[str, Any]) -> str:
    """Format the scores of the test sets, one per line."""
    lines = [f"selected update {scores['update']} by {scores['selection']}"]
    if "behind_oracle" in scores:
        lines.append(
            f"an oracle would have gained {scores['behind_oracle']:.2f} BLEU on its development text"
        )
    for pair, systems in scores["test"].items():
        for name, result in systems.items():
            lines.append(
                f"{pair} {name}: sacreBLEU {result['bleu']:.2f}, tokenised lower-cased BLEU "
                f"{result['tokenised_bleu']:.2f} ({result['signature']})"
            )
    return "\n".join(lines)


def run(cfg: UmtConfig) -> manifest.Manifest:
    """Train, select, translate, score and publish; a rerun after a kill resumes the training.

    Raises:
        UserError: a language is given twice or has no text, the checkpoint was not trained on it, the run
            collapsed, or a test set is missing or its sides differ in length.
    """
    return train_and_score.run_stage(cfg, score_run, format_scores, ValidationWatcher)


def score_run(
    cfg: UmtConfig, model: Path, tests: Mapping[str, plans.LinePair], folder: Path
) -> dict[str, Any]:
    """Return how the model was selected, and the scores of every test set; write the translations to ``folder``."""
    scores = selection_summary(cfg, model / "log.jsonl")
    translator = Translator(model, cfg.search)
    for pair, two in tests.items():
        scores["test"][pair] = score_test_set(cfg, translator, pair, *two, folder)
    return scores

"""Stages of the pipeline as phases and parts: the same code runs in process, in a pool or as array jobs.

A stage is a module-level configuration dataclass plus functions named in a `Stage`. A simple stage is one
phase with one part. A corpus stage has several phases. The parts of one phase are independent of each other
(array elements), and a phase starts when every part of the phase before it has ended (a barrier).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from xling.core import inputs, job, lease, manifest
from xling.core.progress import Progress
from xling.core.registry import Registry
from xling.core.stage_type import Phase as Phase
from xling.core.stage_type import Stage as Stage
from xling.core.stage_type import load as load
from xling.core.stage_type import phases_of as phases_of

# Plain text, so that `xling --help` and a pool worker import nothing heavy.
STAGES: Registry[Stage] = Registry("command")
for _stage in (
    Stage(
        "toyworld",
        config="xling.corpora.toyworld:ToyworldConfig",
        run="xling.corpora.toyworld:run",
        help="write the embedded synthetic data: text, pairs, dictionaries, NER and NLI in seven languages",
    ),
    Stage(
        "corpus mono",
        config="xling.corpora.mono:MonoConfig",
        phases="xling.corpora.mono:phases",
        run_part="xling.corpora.mono:run_part",
        help="turn web crawl, dumps or files into a clean monolingual corpus",
    ),
    Stage(
        "corpus parallel",
        config="xling.corpora.parallel.config:ParallelConfig",
        phases="xling.corpora.parallel.build:phases",
        run_part="xling.corpora.parallel.build:run_part",
        help="turn parallel text from OPUS, archives or files into clean sentence pairs",
    ),
    Stage(
        "corpus bitext",
        config="xling.corpora.bitext.stage:BitextConfig",
        run="xling.corpora.bitext.stage:run",
        reads="checkpoint",
        help="pair documents of two languages and align their sentences",
    ),
    Stage(
        "corpus dictionary",
        config="xling.corpora.lexicon.from_links:DictionaryConfig",
        run="xling.corpora.lexicon.from_links:run",
        help="write dictionaries in MUSE's format from aligned words",
    ),
    Stage(
        "corpus pivot",
        config="xling.corpora.parallel.pivot:PivotConfig",
        run="xling.corpora.parallel.pivot:run",
        help="join parallel corpora that share a language: one row, many languages",
    ),
    Stage(
        "corpus nway",
        config="xling.corpora.nway:NwayConfig",
        run="xling.corpora.nway:run",
        help="convert aligned text in many languages to word ids, for a static encoder",
    ),
    Stage(
        "corpus links",
        config="xling.corpora.links:LinksConfig",
        run="xling.corpora.links:run",
        help="align the words of one language with those of every other one, to carry tags over",
    ),
    Stage(
        "align",
        config="xling.corpora.parallel.align_stage:AlignConfig",
        phases="xling.corpora.parallel.align_stage:phases",
        run_part="xling.corpora.parallel.align_stage:run_part",
        help="align the words of sentence pairs and extract a phrase table",
    ),
    Stage(
        "mine",
        config="xling.corpora.parallel.mine:MineConfig",
        run="xling.corpora.parallel.mine:run",
        reads="checkpoint",
        help="find translations in two monolingual corpora by the margin of their sentence vectors",
    ),
    Stage(
        "corpus codeswitch",
        config="xling.corpora.codeswitch.build:CodeswitchConfig",
        run="xling.corpora.codeswitch.build:run",
        help="make code-switched text from aligned pairs, dictionaries or documents",
    ),
    Stage(
        "corpus halves",
        config="xling.corpora.halves:HalvesConfig",
        run="xling.corpora.halves:run",
        help="cut line-aligned files into non-parallel text of two languages",
    ),
    Stage(
        "corpus altered",
        config="xling.corpora.altered:AlteredConfig",
        run="xling.corpora.altered:run",
        help="write text of one language beside a copy in other letters or another order, or a real language",
    ),
    Stage(
        "corpus why",
        config="xling.corpora.why:WhyConfig",
        run="xling.corpora.why:run",
        positional="query",
        help="explain why a document or a line was dropped from a corpus",
    ),
    Stage(
        "corpus score",
        config="xling.corpora.score:ScoreConfig",
        run="xling.corpora.score:run",
        positional="files",
        help="score files by language, perplexity and filters without building a corpus",
    ),
    Stage(
        "corpus sample",
        config="xling.corpora.sample:SampleConfig",
        run="xling.corpora.sample:run",
        help="sample from several corpora with the languages balanced by alpha",
    ),
    Stage(
        "corpus lm",
        config="xling.text.lm.train:LmConfig",
        run="xling.text.lm.train:run",
        help="train an n-gram language model from clean text, for the perplexity filter",
    ),
    Stage(
        "corpus select",
        config="xling.corpora.select:SelectConfig",
        run="xling.corpora.select:run",
        positional="corpus expr",
        help="filter a published corpus by a condition on its columns",
    ),
    Stage(
        "corpus fit-limits",
        config="xling.corpora.fit_limits:FitLimitsConfig",
        run="xling.corpora.fit_limits:run",
        help="loosen the filters' limits until they pass the clean text of a language; writes a recipe",
    ),
    Stage(
        "corpus langid-train",
        config="xling.corpora.langid_train:LangidTrainConfig",
        run="xling.corpora.langid_train:run",
        help="train language identification on your own text, for languages that no model covers",
    ),
    Stage(
        "vocab",
        config="xling.text.vocab:VocabConfig",
        run="xling.text.vocab:run",
        help="train one SentencePiece vocabulary over languages balanced by alpha",
    ),
    Stage(
        "binarize",
        config="xling.corpora.binarize:BinarizeConfig",
        run="xling.corpora.binarize:run",
        help="encode corpora into fairseq's memory-mapped shards, one set per language",
    ),
    Stage(
        "pretrain",
        config="xling.training.settings:PretrainConfig",
        run="xling.training.train:run",
        reads="data init",
        help="pre-train an encoder with a registered objective through fairseq's Trainer",
    ),
    Stage(
        "pretrain static",
        config="xling.training.static_settings:StaticTraining",
        run="xling.training.static:run",
        help="train one static encoder (hashed n-grams) for many languages by contrast of aligned rows",
    ),
    Stage(
        "finetune",
        config="xling.eval.finetune:FinetuneConfig",
        run="xling.eval.finetune:run",
        positional="suite",
        reads="checkpoint",
        help="fine-tune a checkpoint on a labelled task in the source language",
    ),
    Stage(
        "finetune mt",
        config="xling.transfer.settings:MtConfig",
        run="xling.transfer.mt:run",
        reads="data checkpoint back_translated",
        help="train a translation model, from scratch or from a checkpoint, and score it",
    ),
    Stage(
        "finetune generate",
        config="xling.transfer.settings:GenerateConfig",
        run="xling.transfer.rewrite:run",
        reads="checkpoint train",
        help="fine-tune a model with a decoder to write texts from texts, and score it in every language",
    ),
    Stage(
        "umt",
        config="xling.transfer.settings:UmtConfig",
        run="xling.transfer.umt:run",
        reads="data checkpoint parallel_data",
        help="train translation from monolingual text alone, select it without parallel text, and score it",
    ),
    Stage(
        "bli",
        config="xling.corpora.lexicon.stage:BliConfig",
        run="xling.corpora.lexicon.stage:run",
        help="induce a bilingual dictionary from the text of two languages, and score it",
    ),
    Stage(
        "translate",
        config="xling.transfer.settings:TranslateConfig",
        run="xling.transfer.translate:run",
        positional="checkpoint",
        reads="checkpoint",
        help="translate standard input line by line to standard output",
    ),
    Stage(
        "back-translate",
        config="xling.transfer.settings:BackTranslateConfig",
        phases="xling.transfer.backtranslate:phases",
        run_part="xling.transfer.backtranslate:run_part",
        reads="checkpoint",
        help="translate text with a model, in parts, into pairs to train on",
    ),
    Stage(
        "swap",
        config="xling.transfer.settings:SwapConfig",
        run="xling.transfer.swap:run",
        reads="task embeddings adapters",
        help="give a fine-tuned model the embeddings or the language adapters of another language",
    ),
    Stage(
        "eval",
        config="xling.eval.settings:EvalConfig",
        run="xling.eval.run:run",
        positional="suites",
        reads="checkpoint translator",
        help="score a checkpoint on a suite in every language, with controls beside it",
    ),
    Stage(
        "eval list",
        config="xling.eval.listing:ListConfig",
        run="xling.eval.listing:run_list",
        help="print every suite: languages, metric, licence, and which data are present",
    ),
    Stage(
        "eval fetch",
        config="xling.eval.online:FetchConfig",
        run="xling.eval.online:run",
        positional="suite",
        help="download the rows of a suite from the Hugging Face Hub into the data folder",
    ),
    Stage(
        "analyse",
        config="xling.eval.analysis.run:AnalyseConfig",
        run="xling.eval.analysis.run:run",
        positional="checkpoint",
        reads="checkpoint scores",
        help="measure what each layer of a model shares between languages, compared with random weights",
    ),
    Stage(
        "analyse pair",
        config="xling.eval.analysis.pair:PairConfig",
        run="xling.eval.analysis.pair:run",
        positional="checkpoint",
        reads="checkpoint text",
        help="score how much of its space a model of two languages shares: sentences, words, transfer",
    ),
    Stage(
        "analyse bits",
        config="xling.transfer.settings:BitsConfig",
        run="xling.transfer.bits:run",
        positional="checkpoint",
        reads="checkpoint",
        help="measure the loss of a forward and backward language model in bits a character",
    ),
    Stage(
        "analyse grid",
        config="xling.eval.analysis.pair:GridConfig",
        run="xling.eval.analysis.pair:table",
        reads="runs",
        help="gather the scores of many models of two languages, and say which claims hold",
    ),
    Stage(
        "watch",
        config="xling.eval.watch:WatchConfig",
        run="xling.eval.watch:run",
        positional="checkpoints",
        help="draw how retrieval, loss and transfer grow over the updates of a training, by language",
    ),
    Stage(
        "eval diff",
        config="xling.eval.compare:DiffConfig",
        run="xling.eval.compare:diff",
        positional="runs",
        help="list what changed between the predictions of two runs",
    ),
    Stage(
        "eval gate",
        config="xling.eval.compare:GateConfig",
        run="xling.eval.compare:gate",
        positional="run",
        help="fail when a run is significantly worse than a recorded baseline",
    ),
    Stage(
        "eval power",
        config="xling.eval.power:PowerConfig",
        run="xling.eval.power:run",
        positional="runs",
        help="compute how many items, languages and seeds are needed to detect a difference between systems",
    ),
    Stage(
        "eval rescore",
        config="xling.eval.publish:RescoreConfig",
        run="xling.eval.publish:rescore",
        positional="run",
        help="score the saved predictions of a run again; needs no model",
    ),
    Stage(
        "eval leaks",
        config="xling.eval.leaks:LeaksConfig",
        run="xling.eval.leaks:run",
        help="index the available test rows, to check corpora against them",
    ),
    Stage(
        "eval seal",
        config="xling.eval.seal:SealConfig",
        run="xling.eval.seal:seal",
        positional="run",
        help="put a result with its answers, digests and versions into one file",
    ),
    Stage(
        "eval verify",
        config="xling.eval.seal:VerifyConfig",
        run="xling.eval.seal:verify",
        positional="file",
        help="recompute a sealed result and fail on any difference",
    ),
    Stage(
        "eval contamination",
        config="xling.eval.contamination:ContaminationConfig",
        run="xling.eval.contamination:run",
        positional="run",
        help="count the test rows that a corpus contains, and score the others",
    ),
    Stage(
        "export hf",
        config="xling.hub.config:ExportConfig",
        run="xling.hub.export:run_hf",
        positional="checkpoint out",
        reads="checkpoint",
        help="export a model for transformers: weights, fast tokenizer, model card",
    ),
    Stage(
        "export fairseq",
        config="xling.hub.config:ExportConfig",
        run="xling.hub.export:run_fairseq",
        positional="checkpoint out",
        reads="checkpoint",
        help="export a pre-trained model for stock fairseq's RoBERTa or mBART",
    ),
    Stage(
        "trim",
        config="xling.hub.config:TrimConfig",
        run="xling.hub.trim:run",
        positional="checkpoint out",
        reads="checkpoint",
        help="remove the vocabulary pieces of a model that text of the given languages does not use",
    ),
    Stage(
        "merge",
        config="xling.hub.config:MergeConfig",
        run="xling.hub.merge:run",
        positional="out",
        help="average or TIES-merge models that started from the same checkpoint",
    ),
    Stage(
        "quantize",
        config="xling.hub.config:QuantizeConfig",
        run="xling.hub.quantize:run",
        positional="checkpoint out",
        reads="checkpoint",
        help="write a model with its matrices in 8-bit integers: a quarter of the size",
    ),
    Stage(
        "import hf",
        config="xling.hub.config:ImportConfig",
        run="xling.hub.imports:run_hf",
        positional="source out",
        help="import a Hugging Face model (XLM-R, BERT or mBART) as a checkpoint",
    ),
    Stage(
        "import fairseq",
        config="xling.hub.config:ImportConfig",
        run="xling.hub.imports:run_fairseq",
        positional="source out",
        reads="source",
        help="import a checkpoint of stock fairseq's RoBERTa, XLM-R or mBART",
    ),
    Stage(
        "doctor",
        config="xling.doctor:DoctorConfig",
        run="xling.doctor:run",
        positional="where",
        help="check versions, GPU, NCCL, Slurm, disk, memory and fairseq patches; suggest fixes",
    ),
    Stage(
        "new",
        config="xling.new:NewConfig",
        run="xling.new:run",
        positional="kind name",
        help="write the file and the test of a new objective, stage, filter, source, suite or metric",
    ),
    Stage(
        "report",
        config="xling.eval.report.stage:ReportConfig",
        run="xling.eval.report.stage:run",
        positional="runs",
        help="write a page, and tables as Markdown, LaTeX and CSV, from the folders of one or several runs",
    ),
):
    STAGES.add(_stage.name, _stage)


def run_part(name: str, cfg: Any, phase: str, index: int) -> Any:
    """Run one part of the stage called ``name``, as a pool worker or an array element does."""
    stage = STAGES[name]
    if not stage.phases:
        return load(stage.run)(cfg)
    return load(stage.run_part)(cfg, phase, index)


def run_local(name: str, cfg: Any, num_workers: int = 1) -> Any:
    """Run every phase of a stage on this machine and return the result of the last part.

    Args:
        name: a name in `STAGES`.
        cfg: the resolved configuration of that stage.
        num_workers: processes for the parts of a phase; 1 runs them in this process.

    Raises:
        UserError: another process writes to the same output, or an input is missing.
        Stopped: SIGTERM was received; saved work is valid.
    """
    inputs.check_there(STAGES[name].reads, cfg)
    cfg = inputs.brought_here(STAGES[name].reads, cfg, load)
    job.reset()
    out = Path(getattr(cfg, "out", None) or "")
    is_writer = out.name and os.environ.get("RANK", "0") == "0" and not os.environ.get(manifest.ONLY_WHY)
    with job.stoppable(), lease.hold(out, f"xling {name}") if is_writer else contextlib.nullcontext():
        return _run_phases(name, cfg, num_workers)


def _run_phases(name: str, cfg: Any, num_workers: int) -> Any:
    stage, result, position = STAGES[name], None, 0
    while position < len(phases := phases_of(stage, cfg)):
        phase = phases[position]
        if phase.num_parts == 1:
            result = run_part(name, cfg, phase.name, 0)
        else:
            with Progress(f"{name}: {phase.name}", phase.num_parts, "parts") as progress:
                for result in _results(name, cfg, phase, num_workers):  # noqa: B007 - returned
                    progress.update()
        position += 1
    return result


def _results(name: str, cfg: Any, phase: Phase, num_workers: int) -> Iterator[Any]:
    """Yield the result of each part of a phase, in order."""
    if num_workers == 1:
        for index in range(phase.num_parts):
            yield run_part(name, cfg, phase.name, index)
        return
    context = get_context("forkserver")
    with ProcessPoolExecutor(min(num_workers, phase.num_parts), mp_context=context) as pool:
        parts = [pool.submit(run_part, name, cfg, phase.name, i) for i in range(phase.num_parts)]
        try:
            for part in parts:
                yield part.result()
        except BaseException:
            for process in list((pool._processes or {}).values()):
                process.terminate()  # a killed worker never returns its part, and the pool would wait forever
            raise

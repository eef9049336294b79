"""The commands that make text, vocabularies and shards; `xling.core.commands.table` has all commands."""

from __future__ import annotations

from xling.core.commands.stage_type import Stage

TEXT_COMMANDS: tuple[Stage, ...] = (
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
        config="xling.corpora.parallel.settings:ParallelConfig",
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
        config="xling.corpora.nway.build:NwayConfig",
        run="xling.corpora.nway.build:run",
        help="convert aligned text in many languages to word ids, for a static encoder",
    ),
    Stage(
        "corpus pairs",
        config="xling.corpora.nway.pair_texts:PairsConfig",
        run="xling.corpora.nway.pair_texts:run",
        help="sentence pairs of one language with every other one, from aligned text in many languages",
    ),
    Stage(
        "corpus links",
        config="xling.corpora.nway.word_alignments:LinksConfig",
        run="xling.corpora.nway.word_alignments:run",
        help="align the words of one language with those of every other one, to carry tags over",
    ),
    Stage(
        "align",
        config="xling.corpora.parallel.wordalign.stage:AlignConfig",
        phases="xling.corpora.parallel.wordalign.stage:phases",
        run_part="xling.corpora.parallel.wordalign.stage:run_part",
        help="align the words of sentence pairs and extract a phrase table",
    ),
    Stage(
        "mine",
        config="xling.corpora.mining.stage:MineConfig",
        phases="xling.corpora.mining.stage:phases",
        run_part="xling.corpora.mining.stage:run_part",
        check="xling.transfer.checks:check_mine",
        reads="checkpoint",
        help="find translations in two monolingual corpora by the margin of their sentence vectors",
        extra="train mining",
    ),
    Stage(
        "corpus codeswitch",
        config="xling.corpora.codeswitch.build:CodeswitchConfig",
        run="xling.corpora.codeswitch.build:run",
        help="make code-switched text from aligned pairs, dictionaries or documents",
    ),
    Stage(
        "corpus halves",
        config="xling.corpora.parallel.non_parallel_halves:HalvesConfig",
        run="xling.corpora.parallel.non_parallel_halves:run",
        help="cut line-aligned files into non-parallel text of two languages",
    ),
    Stage(
        "corpus why",
        config="xling.corpora.inspect.why:WhyConfig",
        run="xling.corpora.inspect.why:run",
        positional="query",
        help="explain why a document or a line was dropped from a corpus",
    ),
    Stage(
        "corpus audit",
        config="xling.corpora.audit.stage:AuditConfig",
        run="xling.corpora.audit.stage:run",
        positional="corpus",
        help="make a page on which people judge a sample of a corpus, and count their answers",
    ),
    Stage(
        "corpus score",
        config="xling.corpora.inspect.score:ScoreConfig",
        run="xling.corpora.inspect.score:run",
        positional="files",
        help="score files by language, perplexity and filters without building a corpus",
    ),
    Stage(
        "corpus sample",
        config="xling.corpora.inspect.sample:SampleConfig",
        run="xling.corpora.inspect.sample:run",
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
        config="xling.corpora.inspect.select:SelectConfig",
        run="xling.corpora.inspect.select:run",
        positional="corpus expr",
        help="filter a published corpus by a condition on its columns",
    ),
    Stage(
        "corpus fit-limits",
        config="xling.corpora.fit.limits:FitLimitsConfig",
        run="xling.corpora.fit.limits:run",
        help="loosen the filters' limits until they pass the clean text of a language; writes a recipe",
    ),
    Stage(
        "corpus langid-train",
        config="xling.corpora.fit.langid:LangidTrainConfig",
        run="xling.corpora.fit.langid:run",
        help="train language identification on your own text, for languages that no model covers",
    ),
    Stage(
        "corpus lines-train",
        config="xling.corpora.fit.boilerplate:LinesTrainConfig",
        run="xling.corpora.fit.boilerplate:run",
        help="train the model that tells running text from menus, on your own raw crawl",
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
)

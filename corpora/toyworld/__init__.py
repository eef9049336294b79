"""A closed world of people, places and things that speaks seven languages: the default data, all synthetic.

One meaning is rendered by a small grammar of each language. From this come monolingual text, parallel text,
dictionaries, NER-tagged sentences and NLI pairs with known truth, in any amount and from a seed.
``docs/toyworld.md`` says what it is good for and what it is not.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from xling.core.errors import UserError, unknown
from xling.core.output.manifest import publish, up_to_date
from xling.core.settings.values import Lang
from xling.corpora.toyworld import stream
from xling.corpora.toyworld.dictionary import dictionary
from xling.corpora.toyworld.grammar import LANGS, render
from xling.corpora.toyworld.tokens import text_of

__all__ = ["LANGS", "ToyworldConfig", "dictionary", "mono", "ner", "nli", "para", "render", "run"]


@dataclass(frozen=True)
class ToyworldConfig:
    """Settings of ``xling toyworld``.

    Attributes:
        out: directory to publish.
        langs: languages; parallel text and dictionaries pair English with each of the others.
        num_docs: documents of monolingual text per language, 4 to 8 sentences each.
        num_pairs: sentence pairs per pair of languages.
        num_ner: tagged training sentences per language; dev and test have a quarter of that each.
        num_nli: training pairs per language; dev and test have a fifth of that each.
        seed: seed of the data.
    """

    out: str = "runs/toyworld/raw"
    langs: tuple[Lang, ...] = LANGS
    num_docs: int = 4000
    num_pairs: int = 2000
    num_ner: int = 2000
    num_nli: int = 3000
    seed: int = 1


def mono(lang: str, num_docs: int, seed: int) -> Iterator[str]:
    """Yield documents of ``lang``, one sentence per line, each followed by an empty line."""
    for i in range(num_docs):
        sentences = (text_of(render(lang, m)) for m in stream.mono_meanings(seed, lang, i))
        yield "\n".join(sentences) + "\n\n"


def para(src_lang: str, tgt_lang: str, num_pairs: int, seed: int) -> Iterator[tuple[str, str]]:
    """Yield sentences of the toy world with their translations."""
    for i in range(num_pairs):
        meaning = stream.para_meaning(seed, src_lang, tgt_lang, i)
        yield text_of(render(src_lang, meaning)), text_of(render(tgt_lang, meaning))


def ner(lang: str, split: str, num_sentences: int, seed: int) -> Iterator[list[tuple[str, str]]]:
    """Yield tagged sentences: pairs of form and IOB2 tag (PER, ORG, LOC)."""
    for i in range(num_sentences):
        yield [(token.form, token.tag) for token in render(lang, stream.ner_meaning(seed, split, i))]


def nli(lang: str, split: str, num_pairs: int, seed: int) -> Iterator[tuple[str, str, str]]:
    """Yield premise, hypothesis and label (entailment, neutral, contradiction)."""
    for i in range(num_pairs):
        premise, hypothesis, label = stream.nli_pair(seed, split, i)
        yield text_of(render(lang, premise)), text_of(render(lang, hypothesis)), label


def _write(path: Path, parts: Iterable[str]) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("w", encoding="utf-8", newline="\n") as handle:
        handle.writelines(parts)


def _write_labelled(root: Path, lang: str, cfg: ToyworldConfig) -> Iterator[tuple[str, int]]:
    for split in stream.SPLITS:
        num_ner = cfg.num_ner if split == "train" else cfg.num_ner // 4
        tagged = ner(lang, split, num_ner, cfg.seed)
        lines = ("".join(f"{form}\t{tag}\n" for form, tag in tokens) + "\n" for tokens in tagged)
        _write(root / "ner" / f"{lang}.{split}.tsv", lines)
        yield f"ner/{lang}.{split}", num_ner
        num_nli = cfg.num_nli if split == "train" else cfg.num_nli // 5
        rows = ("\t".join(row) + "\n" for row in nli(lang, split, num_nli, cfg.seed))
        _write(root / "nli" / f"{lang}.{split}.tsv", ["premise\thypothesis\tlabel\n", *rows])
        yield f"nli/{lang}.{split}", num_nli


def _write_paired(root: Path, lang: str, cfg: ToyworldConfig) -> Iterator[tuple[str, int]]:
    pairs = list(para("en", lang, cfg.num_pairs, cfg.seed))
    for side, code in enumerate(("en", lang)):
        _write(root / "para" / f"en-{lang}.{code}", (row[side] + "\n" for row in pairs))
    yield f"para/en-{lang}", len(pairs)
    entries = dictionary("en", lang)
    _write(root / "dict" / f"en-{lang}.tsv", (f"{src}\t{tgt}\n" for src, tgt in entries))
    yield f"dict/en-{lang}", len(entries)


def run(cfg: ToyworldConfig) -> dict[str, int]:
    """Write the toy world's data and return the number of items per file; does nothing if it is up to date.

    Raises:
        UserError: an unknown language, or a negative amount.
    """
    for lang in cfg.langs:
        if lang not in LANGS:
            raise unknown("toyworld language", lang, LANGS)
    for key in ("num_docs", "num_pairs", "num_ner", "num_nli"):
        if getattr(cfg, key) < 0:
            raise UserError(f"{key}={getattr(cfg, key)}", "a number of at least 0", f"give {key}=1000")
    out = Path(cfg.out)
    if published := up_to_date(out, "toyworld", cfg):
        return dict(published.counts)
    counts: dict[str, int] = {}
    with publish(out, "toyworld", cfg) as publication:
        for lang in cfg.langs:
            _write(publication.path / "mono" / f"{lang}.txt", mono(lang, cfg.num_docs, cfg.seed))
            counts[f"mono/{lang}"] = cfg.num_docs
            counts.update(_write_labelled(publication.path, lang, cfg))
            if lang != "en":
                counts.update(_write_paired(publication.path, lang, cfg))
        readme = (files(__package__) / "data_readme.txt").read_text(encoding="utf-8")
        (publication.path / "README.txt").write_text(readme, encoding="utf-8")
        publication.counts.update(counts)
    return counts

"""Training of the n-grams of language identification that ship, and its accuracy on lines that training never saw.

Run:  XLING_DATA=FOLDER python -m benchmarks.langid train corpora/langid/ngrams.npz
      XLING_DATA=FOLDER python -m benchmarks.langid
      XLING_DATA=FOLDER python -m benchmarks.langid rates corpora/langid/rates.json

``train`` trains on what may be passed on: the Universal Declaration of Human Rights (a paragraph in five is left out),
Bibles in the public domain or under CC BY-SA, Common Voice's sentences (CC0; 300 lines of each language are left out),
NLLB-Seed (CC BY-SA 4.0) and VOA. Tatoeba, NTREX, SIB-200, MAFAND, Universal NER and stories are never trained on.

``rates`` writes how often texts of these sets, of SIB-200 and of translated programs are taken for other languages,
and which languages of NLLB-Seed are mostly missed.

Without a word it scores single lines of these and of what was left out: accuracy by set, macro-F1 over the languages
of Tatoeba, close languages, upper case against lower, MB/s of one core. A label counts as right when its base language
is right (``zh`` for ``zh_Hant``), as the stage itself counts.
"""

from __future__ import annotations

import os
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean

import numpy as np

from xling.core import languages
from xling.core.errors import UserError
from xling.corpora.fit.langid_eval import CHARS, answers, joined
from xling.corpora.langid import ngrams
from xling.corpora.langid.rates import BUILT_IN, Rates
from xling.corpora.stages.langid import LangId, identify
from xling.text.files import corpus_reader


def sharpen(
    model: ngrams.NgramModel,
    lines: Mapping[str, Sequence[str]],
    epochs: int = 2,
    rate: float = 0.5,
    seed: int = 0,
) -> ngrams.NgramModel:
    """Return ``model`` with gains tuned to separate ``lines``, by stochastic gradient descent on cross-entropy.

    Args:
        model: what `ngrams.train` made.
        lines: language -> texts of it; as many of each, or the larger win.
        epochs: how often each is read.
        rate: step of the first line; it falls to 0.
        seed: of their order.
    """
    number_of = {lang: number for number, lang in enumerate(model.langs)}
    lines_read = [
        (number_of[lang], *_entries_of_text(model, text)) for lang in sorted(lines) for text in lines[lang]
    ]
    lines_read = [item for item in lines_read if len(item[1])]
    gain = model.gain.copy()
    for step in range(epochs * len(lines_read)):
        if step % len(lines_read) == 0:
            order = np.random.default_rng([seed, step]).permutation(len(lines_read))
        lang, entries, counts, num = lines_read[order[step % len(lines_read)]]
        langs = model.lang_of[entries]
        weights = ngrams._SHARPNESS / np.sqrt(num) * counts
        scores = np.bincount(langs, gain[entries] * weights, minlength=len(model.langs))
        shares = np.exp(scores - scores.max())
        wrong = shares / shares.sum()
        wrong[lang] -= 1
        gain[entries] -= rate * (1 - step / (epochs * len(lines_read))) * weights * wrong[langs]
    return replace(model, gain=gain)


def _entries_of_text(model: ngrams.NgramModel, text: str) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the table entries of a text's n-grams, their counts in the text, and its number of n-grams."""
    hashes = np.concatenate([np.zeros(0, dtype=np.uint32), *ngrams.grams(text).values()])
    unique, counts = np.unique(hashes, return_counts=True)
    entries, repeats = model._entries_of(unique)
    return entries, np.repeat(counts, repeats), len(hashes)


def test_sets(data: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Name of the set, language code and lines, for every file."""
    for path in sorted(data.glob("tatoeba/*-eng.*")):
        lang = path.suffix[1:]
        if lang != "eng":
            yield "Tatoeba", languages.get(lang, "tatoeba").code, read(path)
    yield "Tatoeba", "en", read(data / "tatoeba" / "fra-eng.eng")
    for path in sorted(data.glob("ntrex/ntrex.*.txt")):
        yield "NTREX", languages.get(path.name.split(".")[1], "ntrex").code, read(path)


def read(path: Path) -> list[str]:
    """Return the lines of a file."""
    return path.read_text(encoding="utf-8").rstrip("\n").split("\n")


def ours(text: str) -> str:
    """Return the base language of the pipeline's answer."""
    return identify(text)[0].partition("_")[0]


_OTHER_CODES = {
    "cmn_hans": "zh", "cmn_hant": "zh_Hant", "srp_latn": "sr_Latn", "tuk_cyrl": "", "uig_latn": "", "uzn_cyrl": "",
    "bos_cyrl": "", "azj_cyrl": "", "mly_arab": "", "ell_polytonic": "",
}  # fmt: skip


def code_of(name: str) -> str:
    """Return our code of a file's name, "" for a language that the table lacks."""
    for given in (name, name.replace("_", "-"), name.partition("_")[0], name.partition("-")[0]):
        try:
            return _OTHER_CODES[name] if name in _OTHER_CODES else languages.get(given).code
        except UserError:
            continue
    return ""


def split_files(data: Path) -> Iterator[tuple[str, str, list[str], list[str]]]:
    """Yield folder, language, lines to train on and lines left out, for every file that may be trained on."""
    for pattern in ("mono/cv.*.gz", "mono/voa.*.gz", "seed/*.gz", "bible*/*.tsv.gz", "udhr/*.txt"):
        for path in sorted(data.glob(pattern)):
            name = path.name.removeprefix("cv.").removeprefix("voa.").partition(".")[0]
            lines = [line.rpartition("\t")[2] for line in corpus_reader.read_lines(path) if line.strip()]
            # The Declarations in Central Kurdish and Tamazight are in Latin letters.
            if not (code := code_of(name)) or not languages.matches_script(" ".join(lines[:40]), code):
                continue
            unseen = lines[::5] if path.parent.name == "udhr" else []
            if path.parent.name == "udhr":
                del lines[::5]
            random.Random(0).shuffle(lines)
            if "cv." in path.name:
                unseen, lines = lines[:300], lines[300:]
            yield path.parent.name, code, lines, unseen


def fragments(files: list[list[str]], most: int) -> list[str]:
    """Lines and pieces of lines of some words or characters, at most ``most``; few lines are cut up several times."""
    draw = random.Random(0)
    pool = [line for lines in files for line in lines[: max(1, most // len(files))]]
    times = max(1, min(6, most // (3 * max(1, len(pool)))))
    return [_fragment(line, draw) for _ in range(times) for line in pool][:most]


def _fragment(line: str, draw: random.Random) -> str:
    words = line.split()
    if draw.random() < 0.5 and len(words) > 3:
        start = draw.randrange(len(words) - 2)
        return " ".join(words[start : start + draw.choice([2, 3, 4, 5, 6, 8, 10, 14])])
    if len(words) <= 3 and len(line) > 12 and draw.random() < 0.5:
        start = draw.randrange(len(line) - 8)
        return line[start : start + draw.choice([8, 12, 20, 30])]
    return line[:400]


def in_turn(files: list[list[str]], size: int = 20) -> Iterator[str]:
    """Yield blocks of some lines, cycling through the files."""
    longest = max(map(len, files))
    for start in range(0, longest, size):
        yield from ("\n".join(lines[start : start + size]) for lines in files if start < len(lines))


def train(out: Path) -> None:
    """Write the model that ships with the package."""
    texts: dict[str, list[list[str]]] = {}
    for _, lang, lines, _ in split_files(Path(os.environ["XLING_DATA"])):
        texts.setdefault(lang, []).append(lines)
    start = time.process_time()
    model = ngrams.train({lang: in_turn(files) for lang, files in texts.items()}, 400_000)
    model = sharpen(model, {lang: fragments(files, 1500) for lang, files in texts.items()})
    model.save(out)
    print(f"{len(model.langs)} languages, {len(model.gain):,} entries, {out.stat().st_size:,} bytes")
    print(f"{time.process_time() - start:.0f} s of CPU")


def unseen_sets(data: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Name of the set, language code and lines that training never saw."""
    yield from test_sets(data)
    for folder, code, _, left_out in split_files(data):
        if left_out:
            yield {"mono": "Common Voice", "udhr": "UDHR"}[folder], code, left_out
    for path in sorted(data.glob("ner/uner/*")):
        if (
            path.name.partition("_")[0] in ("sk", "hr", "sr", "nob", "da", "sv", "pt")
            and "train" not in path.name
        ):
            text = "\n".join(corpus_reader.read_lines(path))
            sentences = [" ".join(re.findall(r"^\S+", part, re.MULTILINE)) for part in text.split("\n\n")]
            yield "Universal NER", languages.get(path.name.partition("_")[0]).code, sentences
    for path in sorted(data.glob("mafand/*.dev.*")):
        if (code := code_of(path.name.removesuffix(".gz").rpartition(".")[2])) not in ("", "en", "fr"):
            yield "MAFAND", code, list(corpus_reader.read_lines(path))
    stories: dict[str, list[str]] = {}
    for line in corpus_reader.read_lines(data / "stories" / "asp.tsv"):
        _, lang, _, text = line.split("\t", 3)
        stories.setdefault(lang, []).append(text)
    yield from (("stories", code_of(lang), lines) for lang, lines in stories.items() if code_of(lang))


def unseen(data: Path, most: int = 300) -> None:
    """Print the scores of single lines that training never saw."""
    right: dict[tuple[str, str], list[int]] = {}
    changed = num_bytes = num_lines = 0
    guessed: Counter[str] = Counter()
    seconds = 0.0
    for name, lang, lines in unseen_sets(data):
        chosen = [line for line in lines if any(map(str.isalpha, line))]
        random.Random(1).shuffle(chosen)
        start = time.process_time()
        guesses = [ours(line) for line in chosen[:most]]
        seconds += time.process_time() - start
        num_bytes += sum(len(line.encode()) for line in chosen[:most])
        num_lines += len(guesses)
        changed += sum(
            ours(line.upper()) != guess for line, guess in zip(chosen[:most], guesses, strict=True)
        )
        base = lang.partition("_")[0]
        right.setdefault((name, base), []).extend(guess == base for guess in guesses)
        if name == "Tatoeba":
            guessed.update(guesses)
    f1 = [
        2 * sum(hits) / (guessed[lang] + len(hits))
        for (name, lang), hits in right.items()
        if name == "Tatoeba"
    ]
    print("| set | languages | accuracy, mean by language |\n|---|---:|---:|")
    for name in dict.fromkeys(name for name, _ in right):
        values = [mean(hits) for (other, _), hits in right.items() if other == name]
        print(f"| {name} | {len(values)} | {100 * mean(values):.1f} |")
    print(f"\nmacro-F1 over {len(f1)} languages of Tatoeba: {100 * mean(f1):.1f}")
    for lang in ["gl", "nb", "nn", "sk", "bs", "fo", "uz", "xh", "az"]:
        told = [
            f"{name} {100 * mean(hits):.0f} ({len(hits)})"
            for (name, code), hits in right.items()
            if code == lang
        ]
        print(f"{lang}: {', '.join(told)}")
    print(f"upper case is read otherwise in {changed} of {num_lines} lines")
    print(f"{num_bytes / 1e6 / seconds:.1f} MB/s on lines of {num_bytes / num_lines:.0f} bytes")


def held_out_lines(data: Path) -> Iterator[tuple[str, str]]:
    """Yield language and line of all that training never saw: the sets of `unseen_sets`, SIB-200 and translations."""
    for _, code, lines in unseen_sets(data):
        yield from ((code, line) for line in lines)
    for path in sorted(data.glob("sib200/*.tsv")):
        if code := code_of(path.name.partition(".")[0]):
            yield from ((code, line.rpartition("\t")[2]) for line in read(path)[1:])
    for path in sorted(data.glob("po/*.tsv.gz")):
        if code := code_of(path.name.split(".")[1]):
            yield from ((code, line.rpartition("\t")[2]) for line in corpus_reader.read_lines(path))


def missed(data: Path, measured: Mapping[str, int]) -> dict[str, tuple[int, int, str, int]]:
    """Languages without held-out text of whose NLLB-Seed, read in training, half is not found; see `Rates`."""
    found = {}
    for path in sorted(data.glob("seed/*.gz")):
        if (lang := code_of(path.name.partition(".")[0]).partition("_")[0]) and lang not in measured:
            texts = [(lang, text) for text in joined(filter(None, corpus_reader.read_lines(path)), CHARS)]
            least = LangId().threshold
            sure = Counter(
                answer
                for _, answer, score in answers(LangId(threshold=0.0, min_script_share=0.0), texts)
                if score >= least
            )
            right = sure.pop(lang, 0)
            if 2 * right < len(texts):
                found[lang] = (len(texts), right, *sure.most_common(1)[0])
    return found


def rates(out: Path) -> None:
    """Write the rates of confusion of the built-in models, which ship with the package."""
    lines: dict[str, list[str]] = {}
    for code, line in held_out_lines(Path(os.environ["XLING_DATA"])):
        if languages.matches_script(line, code):
            lines.setdefault(code.partition("_")[0], []).append(line)
    texts = ((lang, text) for lang in sorted(lines) for text in joined(dict.fromkeys(lines[lang]), CHARS))
    measured = Rates.count(BUILT_IN, CHARS, answers(LangId(threshold=0.0, min_script_share=0.0), texts))
    measured.missed = missed(Path(os.environ["XLING_DATA"]), measured.texts)
    measured.save(out)
    print(
        f"{sum(measured.texts.values()):,} texts in {len(measured.texts)} languages, {out.stat().st_size:,} bytes"
    )


if __name__ == "__main__":
    if not os.environ.get("XLING_DATA"):
        sys.exit("benchmarks/langid.py needs the labelled sets: set XLING_DATA to the data folder")
    if sys.argv[1:2] == ["train"]:
        train(Path(sys.argv[2]))
    elif sys.argv[1:2] == ["rates"]:
        rates(Path(sys.argv[2]))
    else:
        unseen(Path(os.environ["XLING_DATA"]))

"""``xling corpus bitext``: documents in, sentence pairs out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.output.command_result import Answer
from xling.core.progress import Progress
from xling.core.settings.values import Pair
from xling.corpora.bitext import documents, evidence
from xling.corpora.bitext.documents import DocumentText
from xling.corpora.bitext.sentence_alignment import Bead, DocumentSide, align, scale_of
from xling.corpora.card.losses import half_note
from xling.corpora.parallel.language_pair import OfPair
from xling.text.encoders import Encoder, encoder_of
from xling.text.files import corpus_reader

STAGE_NAME = "corpus bitext"
PAIRS_FILE, DOCUMENTS_FILE = "pairs.tsv", "documents.tsv"


@dataclass(frozen=True)
class BitextConfig(OfPair):
    """Documents of two languages and how to find the sentence pairs in them.

    Attributes:
        pair: the languages, for example ``en-sw``.
        src: documents of the first language: text files (one document each), JSON lines or Parquet (a row each),
            folders of them.
        tgt: documents of the second language.
        out: directory to publish; ``runs/bitext/PAIR`` when empty.
        method: ``lexicon``: words in common and a lexicon learned from the documents; ``encoder``: vectors of
            ``checkpoint``; ``lengths``: Gale and Church.
        checkpoint: encoder directory of ``xling pretrain``.
        layer: layer of its sentence vectors, -1 the last.
        pooling: ``mean``, ``max`` or ``cls``.
        pairing: ``names``: documents whose names or addresses differ in the language alone; ``vectors``: each
            other's best by their words or vectors; ``both``: names first.
        split: cut lines into sentences; false takes a line as one.
        threshold: lowest score of a pair; 0 is that of random sentences, 1 that of good pairs of these documents.
    """

    FOLDER = "runs/bitext"

    pair: Pair
    src: tuple[str, ...]
    tgt: tuple[str, ...]
    out: str = ""
    method: Literal["lexicon", "encoder", "lengths"] = "lexicon"
    checkpoint: str = ""
    layer: int = -1
    pooling: str = "mean"
    pairing: Literal["both", "names", "vectors"] = "both"
    split: bool = True
    threshold: float = 0.3

    def __post_init__(self) -> None:
        """Reject values that are out of range or do not fit together.

        Raises:
            UserError: an unknown language, a side without documents, an encoder missing or without use, no threshold.
        """
        super().__post_init__()
        for name in ("src", "tgt"):
            if not getattr(self, name):
                raise UserError(f"{name}= is empty", "files, globs or folders of documents")
        if (self.method == "encoder") != bool(self.checkpoint):
            raise UserError(
                f"method={self.method} with checkpoint={self.checkpoint or '(none)'}",
                "method=encoder checkpoint=DIRECTORY, or neither",
            )
        if not np.isfinite(self.threshold):
            raise UserError(f"threshold={self.threshold}", "a number", "0.3 is a start")


@dataclass(frozen=True)
class _AlignedDocuments:
    """Two documents, how they were paired, and their beads."""

    src: DocumentText
    tgt: DocumentText
    paired_by: str
    beads: Sequence[Bead]


def run(cfg: BitextConfig) -> Answer:
    """Pair the documents, align their sentences and publish both tables.

    Raises:
        UserError: nothing to read, or no two documents that belong together.
    """
    out = cfg.directory
    inputs = [Path(name) for name in (*cfg.src, *cfg.tgt, cfg.checkpoint) if name and Path(name).exists()]
    for paths in (cfg.src, cfg.tgt):
        # Check that all paths exist before anything is read; UserError names the first that does not.
        for name in paths:
            if not Path(name).is_dir():
                corpus_reader.resolve_files([name])
    if done := manifest.up_to_date(out, STAGE_NAME, cfg.content(), inputs):
        text = f"{out}: up to date, nothing to do{_loss(done.counts)}"
        return Answer(text, {"out": str(out), **done.counts})
    sides = documents.read(cfg.src, cfg.split), documents.read(cfg.tgt, cfg.split)
    encoder = encoder_of(cfg.checkpoint) if cfg.checkpoint else None
    document_pairs = _pair_documents(cfg, sides, encoder)
    if not document_pairs:
        raise UserError(
            f"no two of {len(sides[0]):,} and {len(sides[1]):,} documents belong together (pairing={cfg.pairing})",
            "documents whose names differ in the language alone, or that share names and numbers",
            "name them a.en.txt and a.sw.txt, or give checkpoint=",
        )
    beads = _align_pairs(
        cfg,
        [sides[0][i].sentences for i, _, _ in document_pairs],
        [sides[1][j].sentences for _, j, _ in document_pairs],
        encoder,
    )
    aligned_documents = [
        _AlignedDocuments(sides[0][i], sides[1][j], how, b)
        for (i, j, how), b in zip(document_pairs, beads, strict=True)
    ]
    with manifest.publish(out, STAGE_NAME, cfg.content(), inputs) as output:
        output.counts |= _write(output.path, cfg, aligned_documents)
        output.counts |= {
            "src_documents": len(sides[0]),
            "tgt_documents": len(sides[1]),
            "src_sentences": sum(len(text.sentences) for text in sides[0]),
            "tgt_sentences": sum(len(text.sentences) for text in sides[1]),
        }
    counts = manifest.read(out).counts
    return Answer(f"{out}: {manifest.summary(counts)}{_loss(counts)}", {"out": str(out), **counts})


def _loss(counts: Mapping[str, Any]) -> str:
    """Return a line where less than half of the sentences of the smaller side became pairs, or ""."""
    num_lone = min(counts["src_documents"], counts["tgt_documents"]) - counts["paired_documents"]
    return half_note(
        min(counts["src_sentences"], counts["tgt_sentences"]),
        counts["pairs"],
        "sentences",
        f"{counts['under_threshold']:,} pairs under the threshold, {num_lone:,} documents without another",
        "threshold=, pairing=, or names that agree",
    )


def _pair_documents(
    cfg: BitextConfig, sides: tuple[list[DocumentText], list[DocumentText]], encoder: Encoder | None
) -> list[tuple[int, int, str]]:
    """Numbers of the documents that belong together and ``name`` or ``vectors``, in the order of the source."""
    matches: list[tuple[int, int, str]] = []
    if cfg.pairing != "vectors":
        matches = [(i, j, "name") for i, j in documents.pairs_by_name(*sides, cfg.langs)]
    if cfg.pairing != "names":
        taken = {i for i, _, _ in matches}, {j for _, j, _ in matches}
        unmatched = [
            [n for n in range(len(side)) if n not in used] for side, used in zip(sides, taken, strict=True)
        ]
        if unmatched[0] and unmatched[1]:
            vectors = _document_vectors(cfg, [[sides[k][n] for n in unmatched[k]] for k in (0, 1)], encoder)
            matches += [
                (unmatched[0][i], unmatched[1][j], "vectors")
                for i, j, _ in documents.pairs_by_vectors(*vectors)
            ]
    return sorted(matches)


def _document_vectors(
    cfg: BitextConfig, texts: Sequence[Sequence[DocumentText]], encoder: Encoder | None
) -> tuple[Any, Any]:
    if encoder is None:
        left, right = (evidence.words_of([" ".join(text.sentences) for text in side]) for side in texts)
        return evidence.shared_word_vectors(left), evidence.shared_word_vectors(right)
    output = []
    for side, lang in zip(texts, cfg.langs, strict=True):
        means = [_embed(cfg, encoder, text.sentences, lang).mean(axis=0) for text in side]
        output.append(_unit_rows(np.stack(means)))
    return output[0], output[1]


def _embed(cfg: BitextConfig, encoder: Encoder, texts: Sequence[str], lang: str) -> Any:
    return _unit_rows(np.asarray(encoder.embed(texts, lang, cfg.layer, cfg.pooling), dtype=np.float32))


def _unit_rows(vectors: Any) -> Any:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)


def _align_pairs(
    cfg: BitextConfig, src: evidence.Texts, tgt: evidence.Texts, encoder: Encoder | None
) -> list[list[Bead]]:
    if cfg.method == "lexicon":
        return evidence.align_documents(src, tgt)
    lengths = evidence.scaled_lengths(*([text for one in side for text in one] for side in (src, tgt)))
    aligned, first_sentences = [], [0, 0]
    with Progress("corpus bitext", len(src), "documents") as progress:
        for pair in zip(src, tgt, strict=True):
            ends = [place + len(texts) for place, texts in zip(first_sentences, pair, strict=True)]
            vectors = [
                _embed(cfg, encoder, t, lang) if encoder else None
                for t, lang in zip(pair, cfg.langs, strict=True)
            ]
            cut = [DocumentSide(lengths[k][first_sentences[k] : ends[k]], vectors[k]) for k in (0, 1)]
            aligned.append(align(cut[0], cut[1], scale_of(*vectors) if encoder else (0.0, 1.0)))
            first_sentences = ends
            progress.update()
    return aligned


def _write(folder: Path, cfg: BitextConfig, aligned_documents: Sequence[_AlignedDocuments]) -> dict[str, int]:
    """Both tables; returns what to count."""
    num_kept = num_below = 0
    with (
        (folder / PAIRS_FILE).open("w", encoding="utf-8") as pairs,
        (folder / DOCUMENTS_FILE).open("w", encoding="utf-8") as table,
    ):
        pairs.write("\t".join([*cfg.langs, "score", "doc", "src_sentences", "tgt_sentences"]) + "\n")
        table.write("src\ttgt\tpaired_by\tsrc_sentences\ttgt_sentences\tpairs\n")
        for documents in aligned_documents:
            kept_before = num_kept
            for bead in documents.beads:
                if bead.score < cfg.threshold:
                    num_below += 1
                    continue
                num_kept += 1
                texts = (
                    " ".join(side.sentences[a:b])
                    for side, (a, b) in ((documents.src, bead.src), (documents.tgt, bead.tgt))
                )
                places = (f"{a + 1}-{b}" for a, b in (bead.src, bead.tgt))
                row = [*texts, f"{bead.score:.4f}", documents.src.name, *places]
                pairs.write("\t".join(field.replace("\t", " ") for field in row) + "\n")
            sizes = len(documents.src.sentences), len(documents.tgt.sentences)
            row = [documents.src.name, documents.tgt.name, documents.paired_by]
            row += map(str, (*sizes, num_kept - kept_before))
            table.write("\t".join(field.replace("\t", " ") for field in row) + "\n")
    return {"pairs": num_kept, "under_threshold": num_below, "paired_documents": len(aligned_documents)}

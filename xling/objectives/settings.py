"""Settings and facts of the objectives of this package, and the constraints on them; without torch.

`xling pretrain` checks them before it imports anything heavy, help and schema show them. Fairseq's dataclasses are
derived from them when an objective is registered (`xling.objectives.base.objective`).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from xling.core.errors import UserError
from xling.core.settings.unused import Condition
from xling.core.settings.values import COUNT, NOT_NEGATIVE, PART, POSITIVE, SHARE, OneOf, Range, ranged
from xling.data.masking import check_shares
from xling.models.files import model_folder
from xling.objectives import adversary_settings as adversary_settings  # declares its own
from xling.objectives import teacher_settings as teacher_settings  # declares its own
from xling.objectives.base_settings import MaskConfig, PairConfig, TaskConfig, TextConfig, declare
from xling.text import word_translation
from xling.text.files import pair_documents, shards
from xling.text.files.shards import vocab_digest


def check_language_last(setting: str, shape: Any) -> None:
    """Reject a model that puts the language first.

    Raises:
        UserError: ``setting`` does not fit the shape.
    """
    if shape.lang_first:
        raise UserError(f"{setting} with model.lang_first=true", "model.lang_first=false")


@declare("alm")
@dataclass
class AlmConfig(MaskConfig):
    """Settings of ALM.

    Attributes:
        pairs: pairs separated by commas; empty for all with switched text.
        switched: share of the tokens that is switched text; 1 for text that already contains its plain
            sentences, as `xling corpus codeswitch mode=alm` writes it.
    """

    pairs: str = ""
    switched: float = ranged(0.8, Range(above=0, most=1, words="a share above 0, at most 1"))

    def check_data(self, langs: list[str]) -> None:
        """Check that the pairs have switched text."""
        super().check_data(langs)
        shards.select_switched_pairs(self.pairs, Path(self.data), langs)


@declare("btmlm")
@dataclass
class BtmlmConfig(MaskConfig):
    """Settings of BTMLM; masking is as in masked LM, applied to x only.

    Attributes:
        restart_positions: positions of the second sentence start at 0 again.
    """

    has_weights: ClassVar[bool] = True

    restart_positions: bool = True

    def check_data(self, langs: list[str]) -> None:
        """Check that there is a language to translate into."""
        super().check_data(langs)
        if len(langs) < 2:
            raise UserError(
                f"objectives.btmlm with langs={','.join(langs)}",
                "two languages or more",
                "name another in langs=",
            )


@declare("camlm")
@dataclass
class SidesConfig(MaskConfig, PairConfig):
    """Settings of masked LM on two sides, as of CAMLM; both are masked as in masked LM.

    Attributes:
        restart_positions: positions of the second sentence start at 0 again.
    """

    restart_positions: bool = True


@declare("clm")
@dataclass
class ClmConfig(TaskConfig):
    """Settings of causal LM: those of every objective."""


@declare("clpc")
@declare("clwr")
@dataclass
class UnicoderConfig(PairConfig):
    """Settings of Unicoder's CLPC and CLWR: those of parallel text."""

    has_weights: ClassVar[bool] = True


@declare("dae")
@dataclass
class DaeConfig(TextConfig):
    """Settings of the noise.

    Attributes:
        style: ``xling`` treats whole words, ``xlm`` every piece separately, see above.
        shuffle: words move by fewer places than this.
        drop: share of the words that is dropped.
        blank: share of the words that is masked.
    """

    shuffle: float = ranged(3.0, Range(least=0, words="a number of places from 0"))
    drop: float = ranged(0.1, PART)
    blank: float = ranged(0.1, PART)
    style: str = ranged("xling", OneOf(("xling", "xlm")))


@declare("hictl")
@dataclass
class HictlConfig(PairConfig):
    """Settings of HICTL.

    Attributes:
        pooling: pooling of a sentence: ``cls`` as in the paper, or ``mean`` or ``max`` over the words.
        temperature: divisor of the similarities.
        num_words: negative words from the vocabulary per batch.
        mix: as in XLCO; off in the paper.
    """

    has_weights: ClassVar[bool] = True

    pooling: str = ranged("cls", OneOf(("cls", "max", "mean")))
    temperature: float = ranged(0.1, POSITIVE)
    num_words: int = ranged(1024, COUNT)
    mix: float = ranged(0.0, PART)


@declare("mass")
@dataclass
class MassConfig(TextConfig):
    """Settings of MASS.

    Attributes:
        style: ``xling``, or ``mass`` as in the paper's code, see above.
        span: share of a sentence's pieces that is masked.
        leave_unmasked_prob: share of the masked pieces that is left unchanged.
        random_token_prob: share of the masked pieces that becomes a random one.
    """

    style: str = ranged("xling", OneOf(("xling", "mass")))
    span: float = ranged(0.5, PART)
    leave_unmasked_prob: float = ranged(0.1, PART)
    random_token_prob: float = ranged(0.1, PART)

    def check_data(self, langs: list[str]) -> None:
        """Check the shares of masking."""
        super().check_data(langs)
        check_shares(self.leave_unmasked_prob, self.random_token_prob)

    def check_model(self, langs: list[str], shape: Any) -> None:
        """Check the place of the language token."""
        check_language_last("objectives.mass", shape)


@declare("mbart")
@dataclass
class MbartConfig(TextConfig):
    """Settings of the noise.

    Attributes:
        style: ``xling``, or ``fairseq``, which does not support mask, delete and rotate; see above.
        join: join neighbouring sentences into one example as long as they fit.
        infill: share of the words in masked spans.
        span_mean: mean length of a span in words.
        permute_sentences: share of the sentences that is permuted.
        mask: share of the pieces that is masked.
        delete: share of the pieces that is deleted.
        rotate: share of the texts that is rotated.
    """

    conditions: ClassVar[tuple[Condition, ...]] = (
        Condition("span_mean", lambda c: c.infill, "infill above 0"),
        Condition("mask delete rotate", lambda c: c.style != "fairseq", "style=xling"),
    )

    join: bool = True
    style: str = ranged("xling", OneOf(("xling", "fairseq")))
    infill: float = ranged(0.35, PART)
    span_mean: float = ranged(3.5, Range(above=0, words="a number of words above 0"))
    permute_sentences: float = ranged(1.0, PART)
    mask: float = ranged(0.0, PART)
    delete: float = ranged(0.0, PART)
    rotate: float = ranged(0.0, PART)

    def check_model(self, langs: list[str], shape: Any) -> None:
        """Check the place of the language token."""
        if self.style == "fairseq":
            check_language_last("objectives.mbart.style=fairseq", shape)


@declare("mmlm")
@dataclass
class MmlmConfig(MaskConfig):
    """Settings of masked LM.

    Attributes:
        lines: an example is one paragraph, cut to ``tokens_per_sample``, in place of a block of the stream. All begin
            at position 0 (Dufter & Schütze 2020, ``line_by_line`` of their code).
    """

    lines: bool = False


@declare("span_corruption")
@dataclass
class SpanCorruptionConfig(TextConfig):
    """Settings of the noise.

    Attributes:
        style: ``xling``, or ``t5`` as in T5's code, see above.
        join: join neighbouring sentences into one example as long as they fit.
        corrupt: share of the tokens in spans.
        span_mean: mean length of a span in tokens.
    """

    join: bool = True
    style: str = ranged("xling", OneOf(("xling", "t5")))
    corrupt: float = ranged(0.15, PART)
    span_mean: float = ranged(3.0, Range(least=1, words="a number of tokens from 1"))


@declare("tlm")
@dataclass
class TlmConfig(SidesConfig):
    """Settings of TLM.

    Attributes:
        style: how two sentences are concatenated: ``xlm`` or ``infoxlm``, see above.
    """

    style: str = ranged("xlm", OneOf(("xlm", "infoxlm")))


@declare("translation")
@dataclass
class TranslationConfig(PairConfig):
    """Settings of translation.

    Attributes:
        directions: directions such as ``en-de,de-en``; empty for both of every pair.
        back_translated: binarised directory of back-translated text; its pairs are named with the
            machine-translated language first.
        back_share: share of the tokens of an epoch that is back-translated.
        tag: put the last sentinel in front of back-translated sources, so that the model can distinguish them
            from genuine ones (Caswell et al. 2019).
        label_smoothing: share of the target distribution that is spread over all pieces.
        pooling: pooling of the source for a decoder that reads one vector: ``max``, ``mean``, or empty to
            read all.
        join: translate blocks of neighbouring pairs of a document, up to ``tokens_per_sample`` on each side; the data
            is binarised with ``documents=true``.
    """

    decoder: ClassVar[bool] = True
    conditions: ClassVar[tuple[Condition, ...]] = (
        Condition("back_share tag", lambda c: c.back_translated, "back_translated="),
    )

    directions: str = ""
    back_translated: str = ""
    back_share: float = ranged(0.5, PART)
    tag: bool = False
    label_smoothing: float = ranged(0.0, SHARE)
    pooling: str = ranged("", OneOf(("", "max", "mean")))
    join: bool = False

    def asked_pairs(self) -> str:
        """Return the pairs: those given, or those of the directions.

        Raises:
            UserError: both are given and differ, or there is no text of a direction.
        """
        if not self.directions:
            return str(self.pairs)
        asked = shards.pairs_of_directions(self.directions, shards.list_pairs(Path(self.data)))
        if self.pairs and set(self.pairs.split(",")) != set(asked.split(",")):
            raise UserError(
                f"pairs={self.pairs} with directions={self.directions}",
                f"pairs={asked}",
                "give one of the two",
            )
        return asked

    def check_data(self, langs: list[str]) -> None:
        """Check the back-translated text and the pairs; their check in the base class knows no directions."""
        data = Path(self.data)
        self._check_join(data)
        if self.back_translated:
            model_folder.check_vocabulary(vocab_digest(data), Path(self.back_translated), data)
            if not shards.list_pairs(Path(self.back_translated)):
                raise UserError(
                    f"no parallel shards in back_translated={self.back_translated}",
                    "a directory of xling binarize with pairs",
                    "run xling binarize on the output of xling backtranslate",
                )
        shards.select_pairs(self.asked_pairs(), data, langs)

    def _check_join(self, data: Path) -> None:
        """Check that blocks have documents, and a decoder that reads all of them."""
        if not self.join:
            return
        if self.pooling:
            raise UserError(f"join=true with pooling={self.pooling}", "join=false, or no pooling=")
        asked = self.asked_pairs()
        for pair in asked.split(",") if asked else shards.list_pairs(data):
            pair_documents.read(data, pair, "train")
        for pair in shards.list_pairs(Path(self.back_translated)) if self.back_translated else []:
            pair_documents.read(Path(self.back_translated), pair, "train")


@declare("umt")
@dataclass
class UmtConfig(TextConfig):
    """Settings of back-translation.

    Attributes:
        pairs: pairs such as ``en-fr,en-de``, trained in both directions; empty for every two languages.
        sample: sample from the distribution instead of taking the best token.
        top_k: sample from this many best tokens; 0 for all.
        temperature: temperature of sampling.
        max_len_a: with ``max_len_b``: outputs are at most ``a * n + b`` tokens.
        max_len_b: see ``max_len_a``.
        reuse: how often each translated batch is used.
        pool: batches that are translated together, by length.
        own_pieces: number of first updates in which only pieces of the target language are written.
        own_share: minimum share of a language's text that makes a piece belong to the language.
        dictionaries: ``en-fr=PATH,fr-en=PATH``.
        word_by_word: number of first updates in which x is made with ``dictionaries``.
    """

    shardable: ClassVar[bool] = False
    has_weights: ClassVar[bool] = True
    conditions: ClassVar[tuple[Condition, ...]] = (
        Condition("top_k temperature", lambda c: c.sample, "sample=true"),
        Condition("own_share", lambda c: c.own_pieces, "own_pieces above 0"),
    )

    pairs: str = ""
    sample: bool = False
    top_k: int = ranged(0, NOT_NEGATIVE)
    temperature: float = ranged(1.0, POSITIVE)
    max_len_a: float = ranged(1.3, NOT_NEGATIVE)
    max_len_b: int = ranged(5, COUNT)
    reuse: int = ranged(1, COUNT)
    pool: int = ranged(8, COUNT)
    own_pieces: int = ranged(0, Range(least=0, words="a number of updates from 0"))
    own_share: float = ranged(0.01, PART)
    dictionaries: str = ""
    word_by_word: int = ranged(0, Range(least=0, words="a number of updates from 0"))

    def check_data(self, langs: list[str]) -> None:
        """Check the pairs and their dictionaries."""
        super().check_data(langs)
        data = Path(self.data)
        partners = shards.partners_of(self.pairs, langs, shards.list_languages(data))
        if self.join:
            raise UserError(
                "objectives.umt.join=true: back-translation reads single sentences",
                "join=false",
                "leave join out",
            )
        dictionaries = word_translation.read_translators(self.dictionaries)
        for src, others in partners.items() if self.word_by_word else ():
            for pair in ((langs[src], langs[other]) for other in others):
                if pair not in dictionaries:
                    raise UserError(
                        f"word_by_word={self.word_by_word} without a dictionary {'-'.join(pair)}",
                        f"dictionaries=DIR of `xling bli`, or {'-'.join(pair)}=PATH",
                    )


@declare("xae")
@dataclass
class XaeConfig(PairConfig):
    """Settings of XAE: those of parallel text."""

    decoder: ClassVar[bool] = True


@declare("xlco")
@dataclass
class XlcoConfig(MaskConfig, PairConfig):
    """Settings of the contrast; the defaults are those of InfoXLM's code.

    Attributes:
        negatives: source of negatives: a ``queue`` of earlier batches, or the ``batch``.
        normalise: scale vectors to length 1.
        layer: layer whose states are contrasted; 0 for layer 8 of 12 and 12 of 24, two thirds up in other
            models, and the last with ``negatives=batch``.
        pooling: pooling of a sentence: ``cls``, ``mean`` or ``max``.
        temperature: divisor of the similarities; 0 for .25 of raw products and .05 of unit vectors.
        queue_size: number of negatives kept from earlier batches.
        fill: fill the queue before the first update; otherwise it fills with the keys of the first updates.
        momentum: momentum of the slow copy of the encoder that computes keys.
        mix: probability that two neighbouring pairs are joined.
        margin: margin of ``negatives=batch``.
    """

    has_weights: ClassVar[bool] = True
    conditions: ClassVar[tuple[Condition, ...]] = (
        Condition("normalise fill", lambda c: c.negatives == "queue", "negatives=queue"),
        Condition("margin", lambda c: c.negatives == "batch", "negatives=batch"),
    )

    negatives: str = ranged("queue", OneOf(("queue", "batch")))
    normalise: bool = False
    layer: int = 0
    pooling: str = ranged("cls", OneOf(("cls", "max", "mean")))
    temperature: float = ranged(0.0, Range(least=0, words="a number above 0, or 0 for the default"))
    queue_size: int = ranged(131_072, COUNT)
    fill: bool = True
    momentum: float = ranged(0.9999, PART)
    mix: float = ranged(1.0, PART)
    margin: float = ranged(0.3, Range(least=0, most=2, words="a difference of cosines from 0 to 2"))

    def check_model(self, langs: list[str], shape: Any) -> None:
        """Check the layer that is contrasted."""
        if not 0 <= self.layer <= shape.layers:
            raise UserError(
                f"objectives.xlco.layer={self.layer}", f"1 to {shape.layers}, or 0 for the paper's"
            )


@declare("xmlm")
@dataclass
class XmlmConfig(MaskConfig, PairConfig):
    """Settings of XMLM: those of masking and of parallel text."""

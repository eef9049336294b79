"""From a model of T5 or mT5 every command goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
import torch

from tests.hub.conftest import LABELS, ROWS
from tests.hub.test_mbart import LINES, check_vectors, ours
from tests.tuning import fine_tune
from xling import cli
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.settings import config
from xling.corpora import binarize
from xling.hub import t5
from xling.hub.export import ExportConfig
from xling.hub.export import run_hf as export_hf
from xling.hub.imports import ImportConfig
from xling.hub.imports import run_hf as import_hf
from xling.hub.settings import TrimConfig
from xling.hub.trim import run as trim
from xling.models.files import model_weights
from xling.models.generate.decode import generate_all
from xling.models.generate.settings import Search
from xling.text import vocab as vocabulary
from xling.training.settings import PretrainConfig
from xling.training.train import run as pretrain
from xling.transfer import tune
from xling.transfer.backend import EncoderBackend
from xling.transfer.encode import encode_pieces
from xling.transfer.settings import TuneConfig
from xling.transfer.translation.translate import TranslateConfig, Translator, translate_lines


def test_every_recipe_goes_on_from_it(
    imported: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Span corruption, translation by `finetune mt`, and `translate`, in the shape that the checkpoint has."""
    data, paths = tmp_path / "shards", {lang: (str(corpus / f"{lang}.txt"),) for lang in ("en", "th")}
    pairs = {"en-th": (str(corpus / "th.txt"), str(corpus / "th.txt"))}
    binarize.run(binarize.BinarizeConfig(vocab=str(imported), out=str(data), corpora=paths, pairs=pairs))
    shape = manifest.read(imported).counts["shape"]
    left = {"dropout", "precision", "task_adapter", "lang_adapter", "invertible"}
    words = [f"model.{k}={str(v).lower()}" for k, v in shape.items() if k not in left]
    words += [
        f"data={data}", f"init={imported}", "langs=en,sw,th", "model.precision=fp32", "model.dropout=0",
        "train.updates=2", "train.batch_tokens=512", "train.warmup=1", "train.lr=1e-9",
    ]  # fmt: skip
    spans = [*words, f"out={tmp_path / 'out'}", "objectives.span_corruption.tokens_per_sample=48"]
    assert pretrain(config.load(PretrainConfig, overrides=spans)).counts["updates"] == 2  # type: ignore[union-attr]
    old, new = (model_weights.load_seq2seq(tmp_path / x) for x in (imported, "out"))
    assert new[1] == old[1]
    for name, weight in old[0].state_dict().items():
        torch.testing.assert_close(new[0].state_dict()[name], weight, rtol=1e-4, atol=1e-6)
    other = [w for w in spans if not w.startswith("model.positions")]
    with pytest.raises(UserError, match=r"has model.positions=relative, not learnt"):
        pretrain(config.load(PretrainConfig, overrides=[*other, f"out={tmp_path / 'other'}"]))
    mt = [
        "finetune", "mt", f"data={data}", f"checkpoint={imported}", f"out={tmp_path / 'mt'}", "train.updates=1",
        "train.batch_tokens=512", "tokens_per_sample=48", "train.warmup=1", "directions=en-th",
    ]  # fmt: skip
    assert cli.main(mt) == 0, capsys.readouterr().err
    tuned, symbols = model_weights.load_seq2seq(tmp_path / "mt")
    assert symbols == old[1] and tuned.cfg.head_dim == 10
    lines: list[str] = []
    translator = Translator(tmp_path / "mt", Search(beam=2, max_len_a=0, max_len_b=5))
    cfg = TranslateConfig(str(tmp_path / "mt"), "en", "th")
    assert translate_lines(translator, ["two books", ""], cfg, lines.append) == 2
    assert len(lines) == 2 and lines[1] == "\n"


@pytest.mark.parametrize("kind", ["classify", "tag"])
def test_its_encoder_is_evaluated_and_fine_tuned(imported: Path, tmp_path: Path, kind: str) -> None:
    """As any encoder here; XLM-R's classes have no place for it."""
    cfg = TuneConfig(epochs=1, lr=1e-3, batch_rows=2, max_length=64, precision="fp32")
    tuned = fine_tune(imported, kind, LABELS, ROWS[kind], cfg)[-1]  # type: ignore[arg-type]
    with manifest.publish(tmp_path / "task", "finetune", cfg, [imported]) as made:
        tune.save_tuned(tuned, made.path, imported, ["en"])
    assert tune.load_tuned(tmp_path / "task").predict(ROWS[kind]) == tuned.predict(ROWS[kind])
    with pytest.raises(UserError, match=r"model.norm=rms .* which XLM-R's classes cannot express"):
        export_hf(ExportConfig(tmp_path / "task", tmp_path / "out"))
    whole, small = (
        EncoderBackend(imported, "mt5", int8=int8).embed(LINES, "en", -1, "mean") for int8 in (False, True)
    )
    assert whole.shape == (len(LINES), 32) and np.linalg.norm(small - whole) / np.linalg.norm(whole) < 0.1


@pytest.mark.parametrize("kind", ["t5", "mt5"])
def test_vectors_are_those_of_transformers(
    spiece: Callable[[str], Path],
    foreigns: Callable[[str], Path],
    imports: Callable[[str], Path],
    kind: str,
) -> None:
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(spiece(kind)))
    check_vectors(foreigns(kind), imports(kind), "sw", [[*pieces.encode(x), 1] for x in LINES], slice(0, -1))


@pytest.mark.parametrize("kind", ["mt5", "t5"])
def test_beam_search_writes_what_transformers_writes(
    foreigns: Callable[[str], Path], imports: Callable[[str], Path], tmp_path: Path, kind: str
) -> None:
    """With its early stopping, and with nothing in rows without a token and in our copies of ``<pad>``."""
    from transformers import AutoModelForSeq2SeqLM

    theirs = AutoModelForSeq2SeqLM.from_pretrained(foreigns(kind)).eval()
    model, symbols = model_weights.load_seq2seq(imports(kind))
    rows = theirs.shared.num_embeddings
    order = t5.read_id_mapping(foreigns(kind), rows, ("en", "sw", "th")).order
    used = order.tolist()
    unused = torch.tensor(sorted({*range(rows)} - {*used}))
    copies = torch.tensor([place for place, number in enumerate(used) if number in used[:place]])
    eos = torch.tensor([1])  # made likely, so that outputs end
    theirs.lm_head.register_forward_hook(
        lambda module, given, out: out.index_fill(-1, unused, -1e9).index_add(-1, eos, out[..., :1] * 0 + 4)
    )
    model.decoder.head.bias.data[copies], model.decoder.head.bias.data[2] = -1e9, 4.0
    barred = sorted({*range(rows)} - {*used[4 : symbols.mask]} - {1})
    generator, compared = np.random.default_rng(5), 0
    for length in range(2, 26):
        source = generator.integers(4, symbols.mask, length)
        found = generate_all(model, [source], [1], [1], symbols, Search(beam=4, max_len_a=0, max_len_b=30))[0]
        if any(len(each.tokens) >= 30 for each in found):
            continue
        with torch.inference_mode():
            wanted = theirs.generate(
                torch.tensor([[*order[source].tolist(), 1]]), num_beams=4, max_new_tokens=31, min_new_tokens=1,
                early_stopping=True, suppress_tokens=barred, use_cache=False,
            )[0]  # fmt: skip
        assert [n for n in wanted.tolist() if n > 1] == order[found[0].tokens].tolist()
        compared += 1
    assert compared > 8


def test_pieces_can_be_added_and_left_out(
    imported: Path, foreign: Path, vocab: Path, corpus: Path, tmp_path: Path
) -> None:
    import_hf(ImportConfig(foreign, tmp_path / "more", ("en", "sw", "th"), extend_vocab=vocab, init="fvt"))
    old, new = (model_weights.load_seq2seq(x) for x in (imported, tmp_path / "more"))
    added = manifest.read(tmp_path / "more").counts["pieces_added"]
    assert added and new[1].mask == old[1].mask + added and new[1].sentinels == 100
    for side in (lambda m: m.encoder.tokens, lambda m: m.decoder.head):
        before, after = side(old[0]).weight, side(new[0]).weight
        assert torch.equal(after[: old[1].mask], before[: old[1].mask])
        assert torch.equal(after[new[1].mask :], before[old[1].mask :])
    trim(TrimConfig(imported, tmp_path / "less", {"en": (str(corpus / "en.txt"),)}))
    model, symbols = model_weights.load_seq2seq(tmp_path / "less")
    processor = vocabulary.load_processor(tmp_path / "less")
    assert (
        symbols.mask < old[1].mask and sum(map(processor.is_byte, range(processor.get_piece_size()))) == 256
    )
    both = [encode_pieces(vocabulary.load_processor(x), LINES[0]) for x in (imported, tmp_path / "less")]
    made = [ours(x, line, [], 0, 0)[0] for x, line in zip((imported, tmp_path / "less"), both, strict=True)]
    assert torch.equal(made[0][both[0]], made[1][both[1]]) and len(model.decoder.head.weight) == symbols.size

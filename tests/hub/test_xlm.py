"""XLM: words by Moses, BPE, language embeddings, and states of transformers."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from tests.hub.differences import largest
from tests.tuning import fine_tune
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.hub.export import run_hf as export_hf
from xling.hub.imports import run_hf
from xling.hub.settings import ExportConfig, ImportConfig
from xling.hub.xlm import run as run_xlm
from xling.models.files import model_weights
from xling.text import vocab
from xling.text.tokenizers import moses
from xling.transfer import tune
from xling.transfer.backend import EncoderBackend
from xling.transfer.encode import encode_pieces, encode_words
from xling.transfer.settings import TuneConfig

LINES = (
    "The old woman sees a red boat near the river.", "two books", "It's “naïve” Ångström: 10,5 %!", "جارتي تبيع خبزا",
    "", "don't — stop...  twice\u200b", "你好，世界。",
)  # fmt: skip
SPECIALS = ["<s>", "</s>", "<pad>", "<unk>", *(f"<special{i}>" for i in range(10))]


def save_random(text: list[str], folder: Path, lower: bool = True) -> None:
    """Write a masked language model with random weights, as transformers saves it."""
    from transformers import XLMConfig, XLMTokenizer, XLMWithLMHeadModel

    trained = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    trained.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trained.train_from_iterator(
        [*(line.lower() for line in text), *(line.lower() if lower else line for line in LINES)],
        trainers.BpeTrainer(vocab_size=260, special_tokens=SPECIALS, end_of_word_suffix="</w>"),
    )
    folder.mkdir(parents=True, exist_ok=True)
    trained.model.save(str(folder))
    # tokenizers writes a first line with its version; XLM's own files have none, and a count behind each merge.
    merges = (folder / "merges.txt").read_text().splitlines()[1:]
    (folder / "merges.txt").write_text("".join(f"{line} 9\n" for line in merges))
    words = XLMTokenizer(
        str(folder / "vocab.json"), str(folder / "merges.txt"), do_lowercase_and_remove_accent=lower
    )
    torch.manual_seed(1)
    model = XLMWithLMHeadModel(
        XLMConfig(vocab_size=len(words), emb_dim=32, n_layers=2, n_heads=4, max_position_embeddings=64, n_langs=2,
                  use_lang_emb=True, pad_index=2, mask_index=5, lang2id={"en": 1, "ar": 0}, id2lang={0: "ar", 1: "en"})
    )  # fmt: skip
    for name, parameter in model.named_parameters():
        torch.nn.init.normal_(parameter, 0.5 if "norm" in name else 0.0, 0.3)
    model.save_pretrained(folder)
    words.save_pretrained(folder)


@pytest.fixture(scope="module", params=[True, False], ids=["lower", "cased"])
def written(request: Any, corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model of `save_random`."""
    folder = tmp_path_factory.mktemp("xlm")
    text = [line for path in sorted(corpus.glob("*.txt")) for line in path.read_text().splitlines()]
    save_random(text, folder, request.param)
    return folder


def test_states_and_ids_are_those_of_transformers(written: Path, tmp_path: Path) -> None:
    from transformers import AutoModel, AutoTokenizer

    run_hf(ImportConfig(written, tmp_path / "in"))
    words, theirs = AutoTokenizer.from_pretrained(written), AutoModel.from_pretrained(written).eval()
    processor = vocab.load_processor(tmp_path / "in")
    backend = EncoderBackend(tmp_path / "in", "pretrained")
    seen = set()
    for layer, lang in ((1, "en"), (-1, "eng_Latn"), (1, "ar"), (-1, "ar")):
        mine = backend.embed(LINES, lang, layer, "mean")
        for row, line in enumerate(LINES):
            ids = words(line)["input_ids"]
            assert [processor._stored_ids[n] for n in encode_pieces(processor, line)] == ids[1:-1], line
            assert [ids[0], ids[-1]] == [processor._stored_ids[0], processor._stored_ids[2]]
            seen.update(ids[1:-1])
            langs = torch.full((1, len(ids)), int(lang != "ar"))
            with torch.inference_mode():
                output = theirs(torch.tensor([ids]), langs=langs, output_hidden_states=True)
            states = output.hidden_states[layer][0, 1:-1]
            if len(ids) > 2:
                assert largest(mine[row], states.mean(0)) <= 1e-5, line
    assert len(seen) > 30
    assert len(processor._stored_ids) == len(
        model_weights.load_model(tmp_path / "in")[0].encoder.tokens.weight
    )


def test_a_language_without_a_vector_is_refused(written: Path, tmp_path: Path) -> None:
    run_hf(ImportConfig(written, tmp_path / "in"))
    backend = EncoderBackend(tmp_path / "in", "pretrained")
    with pytest.raises(
        UserError, match="a vector for each of its languages, and none for 'sw'; valid: ar, en"
    ):
        backend.embed(LINES, "sw", -1, "mean")
    assert manifest.read(tmp_path / "in").counts["langs"] == ["ar", "en"]
    with pytest.raises(UserError, match=r"langs=en,ar, and .* has tokens or vectors for ar, en"):
        run_hf(ImportConfig(written, tmp_path / "other", ("en", "ar")))


def test_words_have_the_pieces_of_the_running_text(written: Path, tmp_path: Path) -> None:
    """Moses cuts words by their neighbours: a full stop at the end, an apostrophe, quotation marks."""
    run_hf(ImportConfig(written, tmp_path / "in"))
    processor = vocab.load_processor(tmp_path / "in")
    for line in (*LINES, "He said : `` don't '' , Mr. Moreno .", "U.S. troops left at 5 p.m. ."):
        words = [word for word in line.split() if word.isprintable()]
        pieces = encode_words(processor, words)
        assert [piece for each in pieces for piece in each] == encode_pieces(processor, " ".join(words)), line
        assert len(pieces) == len(words) and all(pieces), line


def written_by_xlm(folder: Path, theirs: Path, prefix: str = "") -> Path:
    """Write a model of transformers as XLM writes it: a file of an old torch, pieces in its spelling, and codes."""
    from transformers import XLMWithLMHeadModel

    model = XLMWithLMHeadModel.from_pretrained(theirs)
    ids = json.loads((theirs / "vocab.json").read_text())
    ends = {piece: piece.removesuffix("</w>") if piece.endswith("</w>") else f"{piece}@@" for piece in ids}
    same = ("emb_dim", "n_layers", "n_heads", "dropout", "attention_dropout", "n_langs", "use_lang_emb")
    params = {name: getattr(model.config, name) for name in same} | {
        "gelu_activation": True, "sinusoidal_embeddings": False, "asm": False, "n_words": len(ids),
        "id2lang": {0: "ar", 1: "en"}, "lang2id": {"ar": 0, "en": 1}, "mask_scores": np.ones(len(ids)),
        "pred_probs": torch.FloatTensor([0.8, 0.1, 0.1]), "sample_alpha": np.float64(0.5), "eos_index": 1,
    }  # fmt: skip
    content = {
        "epoch": 3,
        "model": {prefix + name.removeprefix("transformer."): w for name, w in model.state_dict().items()},
        "dico_word2id": {piece if n < 14 else ends[piece]: n for piece, n in ids.items()},
        "params": params,
    }
    folder.mkdir()
    torch.save(content, folder / "mlm_ar_en.pth", _use_new_zipfile_serialization=False)
    (folder / "codes_ar_en").write_bytes((theirs / "merges.txt").read_bytes())
    return folder


def check_same(first: Path, second: Path) -> None:
    """Check that two folders of transformers have the same logits and ids, also where a language is named."""
    from transformers import AutoTokenizer, XLMWithLMHeadModel

    theirs, ours = (XLMWithLMHeadModel.from_pretrained(path).eval() for path in (first, second))
    words, again = (AutoTokenizer.from_pretrained(path) for path in (first, second))
    assert type(again) is type(words) and again.mask_token == words.mask_token
    for line in LINES:
        ids = words(line)["input_ids"]
        assert again(line)["input_ids"] == ids, line
        for more in ({}, {"langs": torch.full((1, len(ids)), 1)}):
            with torch.inference_mode():
                wanted, found = (model(torch.tensor([ids]), **more).logits for model in (theirs, ours))
            assert wanted.abs().max() > 0.1 and largest(wanted, found) <= 1e-5, line


@pytest.mark.parametrize("prefix", ["", "module."])
def test_its_own_checkpoint_is_the_same_model(written: Path, tmp_path: Path, prefix: str) -> None:
    """Logits and ids of the export are those of the model in transformers that has the same weights."""
    run_xlm(ImportConfig(written_by_xlm(tmp_path / "xlm", written, prefix), tmp_path / "in"))
    run_hf(ImportConfig(written, tmp_path / "hf"))
    assert (tmp_path / "in" / "dict.txt").read_bytes() == (tmp_path / "hf" / "dict.txt").read_bytes()
    export_hf(ExportConfig(tmp_path / "in", tmp_path / "out"))
    check_same(written, tmp_path / "out")
    assert run_xlm(ImportConfig(tmp_path / "xlm", tmp_path / "in")).stage == "import xlm"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda content: content.pop("model"),
            "has no model; valid: a checkpoint of XLM with model, params, dico",
        ),
        (lambda content: content["params"].update(asm=True), "asm=True; valid: asm=false"),
        (lambda content: content["params"].update(n_layers=3), "no weight transformer.attentions.2"),
        (lambda content: content["model"].pop("embeddings.weight"), "holds what cannot be used"),
        (lambda content: content.update(epoch=Path), "holds more than tensors"),
    ],
)
def test_what_is_no_checkpoint_of_xlm_is_refused(
    written: Path, tmp_path: Path, change: Callable[[dict[str, Any]], Any], said: str
) -> None:
    folder = written_by_xlm(tmp_path / "xlm", written)
    content = torch.load(folder / "mlm_ar_en.pth", weights_only=False)
    change(content)
    torch.save(content, folder / "mlm_ar_en.pth")
    with pytest.raises(UserError, match=said):
        run_xlm(ImportConfig(folder, tmp_path / "in"))
    (folder / "codes_ar_en").unlink()
    with pytest.raises(UserError, match=r"has 0 files codes\*; valid: one: the codes of its BPE"):
        run_xlm(ImportConfig(folder, tmp_path / "in"))
    assert not (tmp_path / "in").exists()


def test_it_is_fine_tuned_and_loaded_again(written: Path, tmp_path: Path) -> None:
    from tests.hub.conftest import LABELS, ROWS

    run_hf(ImportConfig(written, tmp_path / "in"))
    for kind in ("classify", "span"):
        cfg = TuneConfig(epochs=1, lr=1e-3, batch_rows=2, max_length=48, precision="fp32", dropout=0.0)
        labels = LABELS if kind == "classify" else ()
        tuned = fine_tune(tmp_path / "in", kind, labels, ROWS[kind], cfg)[-1]  # type: ignore[arg-type]
        (tmp_path / kind).mkdir()
        tune.save_tuned(tuned, tmp_path / kind, tmp_path / "in", [])
        rows = ROWS[kind]
        assert tune.load_tuned(tmp_path / kind).predict(rows) == tuned.predict(rows)  # type: ignore[arg-type]


def test_exported_it_is_the_model_that_was_imported(written: Path, tmp_path: Path) -> None:
    """Logits of the output layer, and ids, also where a language is named."""
    run_hf(ImportConfig(written, tmp_path / "in"))
    done = export_hf(ExportConfig(tmp_path / "in", tmp_path / "out"))
    assert done.counts["class"] == "XLMWithLMHeadModel"
    check_same(written, tmp_path / "out")


def test_tags_are_exported_and_pairs_refused(written: Path, tmp_path: Path) -> None:
    from transformers import AutoTokenizer, XLMForTokenClassification

    from tests.hub.conftest import LABELS, ROWS, tuned_from

    run_hf(ImportConfig(written, tmp_path / "in"))
    for kind in ("tag", "classify"):
        tuned_from(tmp_path / "in", tmp_path / kind, kind, max_length=48)
    with pytest.raises(UserError, match=r"which XLM's classes cannot express; valid: XLMForTokenClassific"):
        export_hf(ExportConfig(tmp_path / "classify", tmp_path / "out"))
    export_hf(ExportConfig(tmp_path / "tag", tmp_path / "out"))
    model = XLMForTokenClassification.from_pretrained(tmp_path / "out").eval()
    assert list(model.config.id2label.values()) == list(LABELS)
    tuned = tune.load_tuned(tmp_path / "tag")
    words = AutoTokenizer.from_pretrained(tmp_path / "out")
    rows: Any = ROWS["tag"]
    for row, [(example, wanted)] in zip(rows, tuned.scores(rows), strict=True):
        ids = words(" ".join(row.fields["tokens"]))["input_ids"]
        assert [tuned.processor._stored_ids[n] for n in example["tokens"]] == ids
        langs = torch.full((1, len(ids)), 1)  # English, in which it was fine-tuned
        with torch.inference_mode():
            found = model(torch.tensor([ids]), langs=langs).logits[0][example["chosen"]]
        assert largest(found, wanted) <= 1e-5


@pytest.mark.parametrize(
    ("text", "names", "wanted"),
    [
        ("Red  boat", ["red</w>", "bo", "at</w>"], ["Red", "bo", "at"]),
        ("naïve e\u0301tude!", ["naive</w>", "etude</w>", "!</w>"], ["naïve", "e\u0301tude", "!"]),
        ("“a”…", ['"</w>', "a</w>", '"</w>', ".</w>"], ["", "a", "", "…"]),
        ("１０，5", ["10,5</w>"], ["１０，5"]),
        ("", [], []),
    ],
)
def test_pieces_have_their_place_in_the_text(text: str, names: list[str], wanted: list[str]) -> None:
    assert [text[begin:end] for begin, end in moses.find_offsets(text, names)] == wanted


def test_without_sacremoses_it_says_what_to_install(
    written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_hf(ImportConfig(written, tmp_path / "in"))
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    for use in (
        lambda: vocab.load_processor(tmp_path / "in"),
        lambda: run_hf(ImportConfig(written, tmp_path / "again")),
    ):
        with pytest.raises(UserError, match=r"sacremoses is not installed.*pip install 'xling\[hub\]'"):
            use()

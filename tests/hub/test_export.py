"""What `xling export` writes gives the same numbers and the same ids under transformers and stock fairseq."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece as spm
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.hub.differences import largest
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.settings import config
from xling.data.packing import pack
from xling.hub import card, charsmap, tokenizer
from xling.hub.export import ExportConfig, run_fairseq, run_hf
from xling.models.files import model_weights
from xling.text import vocab as vocabulary
from xling.training.settings import PretrainConfig
from xling.training.train import run as pretrain
from xling.transfer import tune
from xling.transfer.encode import encode_pieces
from xling.transfer.task import TASKS

TEXTS = (
    "The old woman sees a red boat near the river.",
    "المرأة العجوز ترى قاربا أحمر قرب النهر.",
    "",
    "หญิงชราเห็นเรือสีแดงใกล้แม่น้ำ two books",
)
ODD = (
    "",
    " ",
    "  two  spaces\tand\ttabs \r\n lines ",
    "👩‍👩‍👧‍👦 🇹🇿🇪🇺 ☝🏽 1️⃣ ❤️",
    "\u200f\u202bשלום\u202c\u200e مرحبا",
    "می‌خواهم نمی\u200cدانم ක්‍ෂ",
    "CD\u200cها ۲۰\u200cساله a\u200cb \u200c \u200c\u200cم\u200c\u200c ক্\u200c e\u200c\u0301 ٵ\u200c ²\u200cم مَ\u200cم",
    "10⁶ 1½ m² ㎡ 5① saⁿ 1º don´t น้ำ น\u0e33\u0e48 ຳ ໜ և ㅋㅋ ㄱㅏ № ™ ª\u0301 ㉮\u1161",
    "e\u0301 e\u0323\u0302 e\u0302\u0323 e\u0301\u0301\u0323 \u1100\u1161\u11a8 \uac00\u11a8 か\u3099 ｶﾞ ﬁ ½ ～",
    "\u0410\u0301 й\u0306 α\u0313\u0301\u0345 ড\u09bc \u0958 ê\u0323",
    "▁ a▁b ▁▁",
    "ABC\u00a0def\u2028ghi\ufeff\u00ad\x07",
    "x" * 5000,
    "The old woman " * 2000,
    "\U0001f9ff\U0001fae8 \ue000 \U000e0041",
)


def logits(model: Path, sequences: list[list[int]]) -> list[torch.Tensor]:
    """Ours, one (length, V) for each sequence."""
    ours = model_weights.load_model(model)[0].eval()
    found = []
    with torch.inference_mode():
        for tokens in sequences:
            example = {"id": np.array([0]), "tokens": np.array(tokens), "positions": np.arange(len(tokens))}
            found.append(ours.lm_head.logits(ours(**pack([example])["net_input"])))
    return found


def masked(model: Path) -> list[list[int]]:
    """Sequences of the texts with some positions masked."""
    processor = vocabulary.load_processor(model)
    mask = len((model / "dict.txt").read_text().splitlines()) + 4
    made = [[0, *encode_pieces(processor, text)[:60], 2] for text in TEXTS]
    return [[mask if i % 4 == 2 and t > 3 else t for i, t in enumerate(tokens)] for tokens in made]


def padded(sequences: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    width = max(map(len, sequences))
    ids = torch.tensor([s + [1] * (width - len(s)) for s in sequences])
    return ids, (ids != 1).long()


@pytest.fixture(scope="module")
def exported(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("hf") / "out"
    run_hf(ExportConfig(model, out))
    return out


def test_masked_lm_gives_our_logits(model: Path, exported: Path) -> None:
    from transformers import AutoModelForMaskedLM

    theirs, report = AutoModelForMaskedLM.from_pretrained(exported, output_loading_info=True)
    assert not report["unexpected_keys"] and not report["mismatched_keys"]
    assert not [k for k in report["missing_keys"] if "position_ids" not in k]
    sequences = masked(model)
    ids, seen = padded(sequences)
    with torch.inference_mode():
        found = theirs.eval()(ids, attention_mask=seen).logits
    for row, tokens, mine in zip(found, sequences, logits(model, sequences), strict=True):
        assert mine.abs().max() > 0.1
        assert largest(row[: len(tokens)], mine) < 1e-5


def test_a_model_without_its_manifest_is_exported(model: Path, exported: Path, tmp_path: Path) -> None:
    """A folder that was copied by hand: the card tells what the files say, and no more."""
    shutil.copytree(model, tmp_path / "copy", ignore=shutil.ignore_patterns("manifest.json"))
    for number in (1, 2):  # the second time it is up to date
        run_hf(ExportConfig(tmp_path / "copy", tmp_path / "out"))
        assert (tmp_path / "out" / "model.safetensors").read_bytes() == (
            exported / "model.safetensors"
        ).read_bytes(), number
    text = (tmp_path / "out" / "README.md").read_text()
    assert "# copy" in text and "Trained with xling." in text and "## Training" not in text


@pytest.mark.filterwarnings("ignore::UserWarning")  # hydra's, of old ways in which fairseq reads a model
def test_fairseq_gives_our_logits(model: Path, tmp_path: Path) -> None:
    from fairseq.models.roberta import RobertaModel

    out = tmp_path / "out"
    run_fairseq(ExportConfig(model, out))
    hub = RobertaModel.from_pretrained(str(out), "model.pt", str(out), bpe=None)
    assert len(hub.task.source_dictionary) == len((out / "dict.txt").read_text().splitlines()) + 5
    sequences = masked(model)
    ids, _ = padded(sequences)
    with torch.inference_mode():
        found, _ = hub.eval().model(ids, features_only=False)
    for row, tokens, mine in zip(found, sequences, logits(model, sequences), strict=True):
        assert largest(row[: len(tokens)], mine) < 1e-5


def test_stock_fairseq_reads_it_without_our_code(model: Path, tmp_path: Path) -> None:
    """As torch.load reads weights alone, and stock fairseq allows no class of its own: not even a Namespace."""
    run_fairseq(ExportConfig(model, tmp_path / "out"))
    allowed = torch.serialization.get_safe_globals()
    torch.serialization.clear_safe_globals()
    try:
        state = torch.load(tmp_path / "out" / "model.pt", weights_only=True)
    finally:
        torch.serialization.add_safe_globals(allowed)
    assert state["cfg"]["task"]["_name"] == "masked_lm" and state["cfg"]["model"]["_name"] == "roberta"
    assert not any("xling" in str(value) for value in state["cfg"].values())


@pytest.mark.parametrize("kind", ["classify", "pair", "tag"])
def test_task_models_give_our_scores(
    model: Path, kind: str, tmp_path: Path, task: Callable[..., tuple[tune.TunedModel, Path, list[Any]]]
) -> None:
    import transformers

    tuned, folder, rows = task(kind)
    run_hf(ExportConfig(folder, tmp_path / "out"))
    settings = json.loads((tmp_path / "out" / "config.json").read_text())
    theirs = getattr(transformers, settings["architectures"][0]).from_pretrained(tmp_path / "out").eval()
    fast = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    assert tuple(theirs.config.id2label.values()) == tuned.model.labels
    for row in rows:
        (example,) = TASKS[kind].encode(tuned.processor, row, tuned.model.labels, 64)
        with torch.inference_mode():
            mine = tuned.model(pack([example | {"id": np.array([0])}]))
            if kind == "tag":
                given = fast(list(row.fields["tokens"]), is_split_into_words=True, return_tensors="pt")
            else:
                given = fast(*row.fields.values(), return_tensors="pt")
            found = theirs(**given).logits
        if kind == "tag":
            words = given.word_ids()
            firsts = [words.index(i) for i in range(len(row.fields["tokens"]))]
            found = found[0, firsts]
        assert given["input_ids"][0].tolist() == example["tokens"].tolist()
        assert largest(found, mine) < 1e-5


def test_a_span_model_gives_our_scores(
    model: Path, tmp_path: Path, task: Callable[..., tuple[tune.TunedModel, Path, list[Any]]]
) -> None:
    from transformers import AutoTokenizer, XLMRobertaForQuestionAnswering

    tuned, folder, rows = task("span")
    run_hf(ExportConfig(folder, tmp_path / "out"))
    assert json.loads((tmp_path / "out" / "config.json").read_text())["architectures"] == [
        "XLMRobertaForQuestionAnswering"
    ]
    theirs, report = XLMRobertaForQuestionAnswering.from_pretrained(
        tmp_path / "out", output_loading_info=True
    )
    assert not report["missing_keys"] and not report["unexpected_keys"]
    fast = AutoTokenizer.from_pretrained(tmp_path / "out")
    for row in rows:
        (example,) = TASKS["span"].encode(tuned.processor, row, (), 64)
        given = fast(row.fields["question"], row.fields["context"], return_tensors="pt")
        assert given["input_ids"][0].tolist() == example["tokens"].tolist()
        with torch.inference_mode():
            mine = tuned.model(pack([example | {"id": np.array([0])}]))
            found = theirs.eval()(**given)
        both = torch.stack([found.start_logits[0], found.end_logits[0]], 1)[example["chosen"]]
        assert mine.abs().max() > 1e-3 and len(mine) > 5
        assert largest(both, mine) < 1e-5
        shown = (
            found.start_logits[0, example["chosen"]].argmax(),
            found.end_logits[0, example["chosen"]].argmax(),
        )
        assert shown == tuple(mine.argmax(0))


def test_a_choice_model_gives_our_scores(
    model: Path, tmp_path: Path, task: Callable[..., tuple[tune.TunedModel, Path, list[Any]]]
) -> None:
    from transformers import AutoTokenizer, XLMRobertaForMultipleChoice

    tuned, folder, rows = task("choice")
    run_hf(ExportConfig(folder, tmp_path / "out"))
    theirs, report = XLMRobertaForMultipleChoice.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    fast = AutoTokenizer.from_pretrained(tmp_path / "out")
    for row in rows:
        examples = TASKS["choice"].encode(tuned.processor, row, (), 64)
        premise, choices = row.fields["premise"], row.fields["choices"]
        asked = row.fields["question"] == "cause"
        pairs = [(c, premise) if asked else (premise, c) for c in choices]
        given = fast(*map(list, zip(*pairs, strict=True)), padding=True, return_tensors="pt")
        with torch.inference_mode():
            found = theirs.eval()(**{k: v[None] for k, v in given.items()}).logits[0]
            mine = [tuned.model(pack([e | {"id": np.array([0])}]))[0, 0] for e in examples]
        assert largest(found, torch.stack(mine)) < 1e-5


def same_ids(folder: Path, model: Path, lines: list[str]) -> None:
    from transformers import AutoTokenizer

    fast, processor = AutoTokenizer.from_pretrained(folder), vocabulary.load_processor(model)
    for line in lines:
        assert fast(line, add_special_tokens=False)["input_ids"] == encode_pieces(processor, line), repr(
            line[:200]
        )


def test_ids_of_odd_text(exported: Path, model: Path) -> None:
    same_ids(exported, model, [*ODD, *(unicodedata.normalize("NFD", x) for x in ODD)])


@pytest.fixture(scope="module")
def normalisers(model: Path) -> tuple[Any, spm.SentencePieceProcessor]:
    blob = tokenizer.read_spm_model(model / "spm.model").normalizer_spec.precompiled_charsmap
    return charsmap.build_normaliser(blob), vocabulary.load_processor(model)


LETTERS = st.sampled_from("eEaoAα авéêẹのかハㄱㅏ가กำڤबড\u1100 12²½①´ﬁٵ\u00a0")
MARKS = st.sampled_from(
    "\u0301\u0302\u0323\u0308\u031b\u3099\u09bc\u093c\u0651\u064e\u05b4\u200c\u200d\ufe0f"
)


@given(st.lists(st.builds(lambda a, b: a + b, LETTERS, st.text(MARKS, max_size=4)), max_size=12))
def test_any_marks_are_composed_as_sentencepiece_does(normalisers: Any, parts: list[str]) -> None:
    fast, processor = normalisers
    text = "".join(parts)
    wanted = processor.normalize(text).removeprefix("▁").replace("▁", " ")
    assert fast.normalize_str(text) == wanted


@given(
    st.dictionaries(st.text(min_size=1, max_size=3).filter(lambda x: "\0" not in x), st.just("y"), min_size=1)
)
def test_rules_are_read_as_written(rules: dict[str, str]) -> None:
    rules = {k: f"{v}{len(k)}" for k, v in rules.items() if k.isprintable() or k}
    table = charsmap.build_charsmap(rules)
    assert charsmap.read_charsmap(table) == rules
    assert charsmap.build_charsmap(dict(reversed(rules.items()))) == table
    keys = [key for key in rules if len(key) > 1]
    assert not keys or charsmap._join_pattern(keys) == charsmap._join_pattern(keys[::-1])


@pytest.mark.data
@pytest.mark.parametrize("in_bytes", [False, True])
def test_ids_in_thirty_languages(tmp_path: Path, in_bytes: bool) -> None:
    files = sorted((Path(os.environ["XLING_DATA"]) / "ntrex").glob("ntrex.*.txt"))
    out = tmp_path / "vocab"
    texts, langs = {path: path.read_text(encoding="utf-8").split("\n")[::3] for path in files}, {}
    for path, lines in texts.items():
        (few := tmp_path / path.name).write_text("\n".join(lines[::2]), encoding="utf-8")
        langs[path.stem.split(".")[1]] = (str(few),)
    if in_bytes:  # as mT5's, where characters are rare enough
        out.mkdir()
        spm.SentencePieceTrainer.train(
            input=[path for path, in langs.values()], model_prefix=str(out / "spm"), vocab_size=6000, unk_id=0,
            bos_id=1, eos_id=2, character_coverage=0.99, byte_fallback=True, num_threads=1, minloglevel=2,
        )  # fmt: skip
        made = tokenizer.read_spm_model(out / "spm.model")
        vocabulary._round_scores(made)
        (out / "spm.model").write_bytes(made.SerializeToString())
    else:
        vocabulary.run(vocabulary.VocabConfig(corpora=langs, out=str(out), size=6000, num_sentences=6000))
    fast, processor = tokenizer.build_from_spm(out / "spm.model"), vocabulary.load_processor(out)
    assert len(files) >= 30
    for path, lines in texts.items():
        for line in lines[::4]:
            for form in ("", "NFD", "NFKC"):
                text = unicodedata.normalize(form, line) if form else line  # type: ignore[arg-type]
                ids = fast.encode(text, add_special_tokens=False).ids
                assert ids == encode_pieces(processor, text), f"{path.stem} {form}: {text}"


@pytest.mark.parametrize("setting", ["pre_norm", "lang_embeddings", "invertible"])
def test_what_cannot_be_expressed_is_named(
    shards: Path, tiny: tuple[str, ...], tmp_path: Path, setting: str
) -> None:
    words = [*tiny, f"data={shards}", f"out={tmp_path / 'm'}", f"model.{setting}=true", "train.updates=1"]
    pretrain(config.load(PretrainConfig, overrides=words))
    with pytest.raises(UserError, match=f"model.{setting}"):
        run_hf(ExportConfig(tmp_path / "m", tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_match_features_are_refused(
    tmp_path: Path, task: Callable[..., tuple[tune.TunedModel, Path, list[Any]]]
) -> None:
    _, folder, _ = task("pair", pair_features="match")
    with pytest.raises(UserError, match="match features"):
        run_hf(ExportConfig(folder, tmp_path / "out"))


def test_intents_with_slots_are_refused(
    tmp_path: Path, task: Callable[..., tuple[tune.TunedModel, Path, list[Any]]]
) -> None:
    _, folder, _ = task("intent_slots")
    with pytest.raises(UserError, match="a head for intent_slots"):
        run_hf(ExportConfig(folder, tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_card_tells_corpora_and_licences(model: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "mono" / "sw"
    (corpus / "shards").mkdir(parents=True)
    (corpus / "card.md").write_text("# Swahili")
    (corpus / "stats.json").write_text(json.dumps({"sources": [{"uri": "x", "licence": "CC BY 4.0"}] * 2}))
    (corpus / "shards" / "sw-00000.parquet").write_text("")
    with manifest.publish(tmp_path / "shards", "binarize", {}, [corpus / "shards" / "sw-00000.parquet"]):
        pass
    with manifest.publish(tmp_path / "copy", "import hf", {}, [tmp_path / "shards"]):
        pass
    sizes = ("num_hidden_layers", "hidden_size", "vocab_size", "max_position_embeddings")
    settings = {"architectures": ["X"], **dict.fromkeys(sizes, 4)}
    text = re.sub(" +", " ", card.write_card(tmp_path / "copy", settings))
    digest = hashlib.sha256(b"# Swahili").hexdigest()[:16]
    assert text.count(f"| `sw` | `{digest}` | CC BY 4.0 |") == 1
    assert "trained by others" in text and "trained by others" not in card.write_card(model, settings)


def test_no_text_of_others_leaves_its_place_in_the_card(tmp_path: Path) -> None:
    """Licences, names, settings and scores come with files of others: no HTML, no further cell, no line, no escape."""
    hostile = "<img src=x onerror=alert(1)> | a ` <b>\n\n# b\x1b[2J"
    corpus = tmp_path / "mono" / "sw"
    corpus.mkdir(parents=True)
    (corpus / "card.md").write_text("# Swahili")
    (corpus / "stats.json").write_text(json.dumps({"sources": [{"uri": "x", "licence": hostile}]}))
    (corpus / "x.parquet").write_text("")
    with manifest.publish(
        tmp_path / "model", "pretrain", {"note": hostile}, [corpus / "x.parquet"]
    ) as publication:
        publication.counts["kind"] = hostile
    score = dict.fromkeys(("suite", "lang", "system", "metric", "signature"), hostile) | {"value": 1.0}
    (tmp_path / "scores.json").write_text(json.dumps([score]))
    sizes = ("num_hidden_layers", "hidden_size", "vocab_size", "max_position_embeddings")
    settings = {"architectures": ["X"], **dict.fromkeys(sizes, 4)}
    text = card.write_card(tmp_path / "model", settings, [tmp_path / "scores.json"])
    outside_code = re.sub(r"`[^`\n]*`", "", text.replace("\\`", ""))
    assert outside_code.count("&lt;img src=x") == 6 and "\x1b" not in text
    assert not re.search(r"<(?=[A-Za-z/!?])", outside_code) and "\n# b" not in text
    for line in text.splitlines():
        cells = re.sub(r"\\\|", "", line).count("|")
        assert cells in (0, 3, 4, 6), line


def test_card_tells_the_manifests(model: Path, exported: Path, tmp_path: Path) -> None:
    text = re.sub(" +", " ", (exported / "README.md").read_text())
    assert "`pretrain`" in text and "`binarize`" in text and "| en |" in text
    assert model_weights.load_model(model)[1][0] in text.split("---")[1]
    seen = manifest.read(model).counts["seen"]
    assert seen["epochs"] > 0 and set(seen["tokens"]) == {"ar", "en", "th"}
    there, read = (seen["tokens"]["ar"][key] for key in ("there", "read"))
    assert f"| ar | {there:,} | {read:,} | {read / there:.2f} |" in text and "objectives: mmlm" in text
    bad = tmp_path / "scores.json"
    bad.write_text("[]}")
    with pytest.raises(UserError, match="holds no scores"):
        run_hf(replace(ExportConfig(model, tmp_path / "out"), scores=(bad,)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: setattr(m.trainer_spec, "treat_whitespace_as_suffix", True), "spaces after words"),
        (lambda m: setattr(m.normalizer_spec, "escape_whitespaces", False), "spaces after words"),
        (lambda m: setattr(m.pieces[9], "type", 4), "pieces like"),
    ],
)
def test_a_model_without_a_fast_equivalent_is_refused(
    vocab: Path, tmp_path: Path, change: Callable[[Any], None], message: str
) -> None:
    changed = tokenizer.read_spm_model(vocab / "spm.model")
    change(changed)
    (tmp_path / "spm.model").write_bytes(changed.SerializeToString())
    with pytest.raises(UserError, match=f"{message}.*valid: a model as `xling vocab` trains it"):
        tokenizer.build_from_spm(tmp_path / "spm.model")

"""An exported static encoder computes our vectors without xling, and comes back unchanged."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests import forked
from xling import cli
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.eval.rows.suite import suites
from xling.hub import card, quantize, source, static_export
from xling.hub.export import run_hf
from xling.hub.settings import ExportConfig, ImportConfig, QuantizeConfig
from xling.static import encoder_files
from xling.static.matching import match_all
from xling.static.modeling_static import StaticEncoderConfig, StaticEncoderModel, StaticSentences
from xling.static.shape import StaticConfig
from xling.static.vectors import unit_length, word_hash
from xling.text.words import han

TEXTS = (
    "The old woman sees a red boat near the river.", "the a the", "جارتي تبيع خبزا", "หญิงชราเห็นเรือ 12", "圖書館 図書",
    "", "Меркель मर्केल মার্কেল", "가을 하늘 ⅷ ١٢٣", "👩‍👩‍👧 \U00020000",
)  # fmt: skip
LOAD = """
import json, sys
for name in ("xling", "opencc", "jaxtyping"):
    sys.modules[name] = None  # an import of it is an error
import numpy as np
folder, again, texts, out = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), sys.argv[4]
from transformers import AutoModel
model = AutoModel.from_pretrained(folder, trust_remote_code=True)
from sentence_transformers import SentenceTransformer
sentences = SentenceTransformer(folder, trust_remote_code=True, device="cpu")
sentences.save(again)
saved = SentenceTransformer(again, trust_remote_code=True, device="cpu")
np.savez(
    out, vectors=model(texts), encoded=sentences.encode(texts, batch_size=2), saved=saved.encode(texts),
    prompted=sentences.encode(texts, prompt="x "), words=model.words(texts), matches=model.matches(texts, texts[::-1]),
    size=sentences.get_embedding_dimension(),
)
"""
JUDGES = """
import json, sys
folder, rows = sys.argv[1], json.loads(sys.argv[2])
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.evaluation import TranslationEvaluator
model = SentenceTransformer(folder, trust_remote_code=True, device="cpu")
found = TranslationEvaluator(rows["sentence1"], rows["sentence2"], name="x", write_csv=False)(model)
scores = {"sentence-transformers": found["x_src2trg_accuracy"]}
try:
    import mteb
    from datasets import Dataset
except ImportError:
    pass
else:
    task = mteb.get_task("Tatoeba", languages=["deu"])
    task.dataset, task.data_loaded = {"deu-eng": {"test": Dataset.from_dict(rows)}}, True
    options = {"subsets_to_run": ["deu-eng"], "encode_kwargs": {}}
    scores["mteb"] = task.evaluate(mteb.SentenceTransformerEncoderWrapper(model), "test", **options)["deu-eng"]
print("SCORES", json.dumps(scores, default=float))
"""


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A static encoder with a random table, made from aligned text of two sources."""
    folder = tmp_path_factory.mktemp("static")
    with manifest.publish(folder / "rows", "corpus nway", {}, []) as made:
        made.counts["rows"] = {
            "bible": {"en": 5, "zh": 4, "zh_Hant": 3},
            "<b>|": {"sw": 2, "007": 1, "<i>": 1},
        }
    with manifest.publish(folder / "model", "pretrain static", {}, [folder / "rows"]) as made:
        share = {word_hash("the"): 0.05, word_hash("圖書"): 0.01}
        made_encoder = encoder_files.random_encoder(StaticConfig(dim=24, bits=12, sketch=16), share)
        made_encoder.weight_direction = torch.linspace(-0.5, 0.5, 24)
        encoder_files.save_encoder(made_encoder, made.path)
    return folder / "model"


@pytest.fixture(scope="module")
def exported(encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("exported") / "out"
    assert run_hf(ExportConfig(encoder, out)).counts["class"] == "StaticEncoderModel"
    return out


def computed(exported: Path, folder: Path) -> dict[str, Any]:
    """What a program without xling computes from the export."""
    words = ["-c", LOAD, str(exported), str(folder / "again"), json.dumps(TEXTS), str(folder / "made.npz")]
    environment = {"HOME": str(folder), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = forked.run(*words, cwd=folder, env=environment)
    assert done.returncode == 0, done.stderr
    with np.load(folder / "made.npz") as made:
        return dict(made)


@pytest.mark.slow
def test_programs_without_xling_compute_our_vectors(encoder: Path, exported: Path, tmp_path: Path) -> None:
    made, ours = computed(exported, tmp_path), encoder_files.load_encoder(encoder)
    vectors = unit_length(ours.sentence_vectors(TEXTS)).numpy()
    lengths = np.linalg.norm(vectors, axis=1)
    assert np.abs(lengths[[0, 1, 2, 3, 4, 6, 7, 8]] - 1).max() < 1e-5 and lengths[5] == 0
    for name in ("vectors", "encoded", "saved"):
        assert np.abs(made[name] - vectors).max() < 1e-6, name
    prompted = unit_length(ours.sentence_vectors([f"x {text}" for text in TEXTS])).numpy()
    assert np.abs(made["prompted"] - prompted).max() < 1e-6
    assert np.abs(made["words"] - ours.word_vectors(TEXTS).numpy()).max() < 1e-6
    assert np.abs(made["matches"] - match_all(ours, TEXTS, TEXTS[::-1]).numpy()).max() < 1e-5
    assert int(made["size"]) == vectors.shape[1] == 40


def test_an_encoder_from_before_learned_weights_is_exported_without_them(
    encoder: Path, tmp_path: Path
) -> None:
    tensors = load_file(encoder / encoder_files.WEIGHTS_FILE)
    del tensors["weight_direction"]
    old = tmp_path / "old"
    with manifest.publish(old, "pretrain static", {}, []) as made:
        shutil.copyfile(encoder / encoder_files.CONFIG_FILE, made.path / encoder_files.CONFIG_FILE)
        save_file(tensors, made.path / encoder_files.WEIGHTS_FILE)
    ours = encoder_files.load_encoder(old)
    assert not ours.weight_direction.any()
    assert not torch.equal(
        ours.sentence_vectors(TEXTS), encoder_files.load_encoder(encoder).sentence_vectors(TEXTS)
    )
    run_hf(ExportConfig(old, tmp_path / "new"))
    saved = load_file(tmp_path / "new/model.safetensors")
    assert not saved["weight_direction"].any() and saved["weight_direction"].shape == (24,)


def test_every_chinese_character_has_the_same_form(exported: Path) -> None:
    code: dict[str, Any] = {}
    exec((exported / "han.py").read_text(encoding="utf-8"), code)  # ours, just written
    characters = "".join(map(chr, range(0x20, 0x32000)))
    assert len(han.simplified_table()) > 4000 and code["simplify"](characters) == han.simplify(characters)


def test_an_export_comes_back_unchanged(encoder: Path, exported: Path, tmp_path: Path) -> None:
    source.run_hf(ImportConfig(exported, tmp_path / "back"))
    before, after = encoder_files.load_encoder(encoder), encoder_files.load_encoder(tmp_path / "back")
    assert torch.equal(before.table, after.table)
    assert (before.cfg, before.share) == (after.cfg, after.share)


def test_the_card_says_how_to_load_it_and_which_languages_it_read(exported: Path) -> None:
    text = (exported / "README.md").read_text(encoding="utf-8")
    front = text.split("---")[1]
    assert front.count('- "zh"') == 1 and '"sw"' in front and "007" not in front
    assert (
        'SentenceTransformer("DIR", trust_remote_code=True)' in text and "4,096 vectors of 24 numbers" in text
    )
    assert "| bible " in text and "en zh zh_Hant" in text and "&lt;b>" in text and "<i>" not in text


def test_the_hub_reads_the_scores_in_the_card(encoder: Path, tmp_path: Path) -> None:
    from huggingface_hub import ModelCard

    def score(system: str, value: float, **more: object) -> dict[str, object]:
        fields = {"suite": "held_out", "lang": "sw-en", "metric": "retrieval_accuracy", "signature": "x"}
        return {**fields, "system": system, "value": value, **more}

    scores = [
        score("pretrained", 90),
        score("pretrained", 95),
        score("random", 8),
        score("pretrained", 50, lang="fr-en"),
    ]
    (tmp_path / "scores.json").write_text(json.dumps({"scores": scores}))
    run_hf(ExportConfig(encoder, tmp_path / "out", scores=(tmp_path / "scores.json",)))
    read = ModelCard.load(tmp_path / "out/README.md").data
    found = [
        (r.task_type, r.dataset_type, r.dataset_config, r.metric_type, r.metric_value)
        for r in read.eval_results
    ]
    assert found == [
        ("sentence-similarity", "held_out", "sw-en", "retrieval_accuracy", 92.5),
        ("sentence-similarity", "held_out", "fr-en", "retrieval_accuracy", 50),
    ]
    assert "| held_out" in (tmp_path / "out/README.md").read_text() and read.library_name == "transformers"


def test_many_inputs_are_named_by_folder(tmp_path: Path) -> None:
    for number in range(21):
        path = tmp_path / f"data/{number % 2}" / f"{number:02}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(number))
    files = sorted((tmp_path / "data").rglob("*.txt"))
    for name, inputs in (("few", files[:20]), ("many", files)):
        with manifest.publish(tmp_path / name, "test", {}, inputs):
            pass
    few, many = (card.compose_card(tmp_path / name, "", "", ()) for name in ("few", "many"))
    assert "00.txt`" in few and "files`" not in few
    assert "data/0: 11 files`" in many and "data/1: 10 files`" in many and ".txt`" not in many
    files[0].write_text("other")
    with manifest.publish(tmp_path / "other", "test", {}, files):
        pass
    other = card.compose_card(tmp_path / "other", "", "", ())
    assert sum(a != b for a, b in zip(many.splitlines(), other.splitlines(), strict=True)) == 2, (
        "name and a digest"
    )


def test_portable_code_names_neither_xling_nor_packages_for_types() -> None:
    code = '"""A."""\n\nimport os\nfrom typing import TYPE_CHECKING\n\nfrom xling.array_types import Float\n'
    code += "from xling.text.words.han import simplify\n\n"
    code += "if TYPE_CHECKING:\n    from xling.core import languages\n\nx = 1\n"
    made = static_export.to_portable_code(code)
    assert made.startswith("# From xling ")
    assert made.partition("\n")[2] == '"""A."""\n\nimport os\n\nfrom .han import simplify\n\nx = 1\n'


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("model.safetensors", None, "no file .*model.safetensors"),
        ("model.safetensors", b"\x08", "is not a static encoder"),
        ("config.json", {"features": 1}, "version 1 of the word features"),
        ("config.json", {"dim": 23}, "is not a static encoder"),
    ],
)
def test_a_damaged_export_is_not_imported(
    exported: Path, tmp_path: Path, name: str, content: Any, message: str
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(exported, copy)
    if isinstance(content, dict):
        settings = json.loads((copy / name).read_text()) | content
        (copy / name).write_text(json.dumps(settings))
    elif content is None:
        (copy / name).unlink()
    else:
        (copy / name).write_bytes(content)
    with pytest.raises(UserError, match=message):
        source.run_hf(ImportConfig(copy, tmp_path / "back"))
    assert not (tmp_path / "back").exists()


def test_settings_of_other_models_are_refused(
    encoder: Path, exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert cli.main(["export", "hf", str(encoder), str(out), "pooling=cls"]) == 2
    assert "valid: pooling=mean" in capsys.readouterr().err
    with pytest.raises(UserError, match="has no pieces"):
        source.run_hf(ImportConfig(exported, out, extend_vocab=encoder))
    assert not out.exists()
    assert source.run_hf(ImportConfig(exported, out, langs=("swh", "en"))).counts["langs"] == ["sw", "en"]


def test_the_model_names_every_file_of_code(exported: Path) -> None:
    """transformers 4 copies the files that the model names, and not those that these name."""
    text = (exported / "modeling_static.py").read_text(encoding="utf-8")
    named = set(re.findall(r"^\s*from\s+\.(\S+)\s+import", text, re.MULTILINE)) | {"modeling_static"}
    assert named == {path.stem for path in exported.glob("*.py")}


def test_other_code_does_not_read_the_weights() -> None:
    with pytest.raises(ValueError, match="features=1; this code computes version"):
        StaticEncoderConfig(features=1)


def test_export_fairseq_says_that_the_encoder_is_static(
    encoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["export", "fairseq", str(encoder), str(tmp_path / "out")]) == 2
    assert "is a static encoder" in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_the_classes_work_here_as_well(encoder: Path) -> None:
    """The exported classes are those of this repository; `computed` runs their copies."""
    ours = encoder_files.load_encoder(encoder)
    config = StaticEncoderConfig(**{"dim": 24, "bits": 12, "sketch": 16, "num_frequent": len(ours.share)})
    model = StaticEncoderModel(config)
    model.table.data.copy_(ours.table)
    frequent: Any = model.frequent
    share: Any = model.share
    frequent.copy_(torch.tensor(list(ours.share)))
    share.copy_(torch.tensor(list(ours.share.values())))
    weight_direction: Any = model.weight_direction
    weight_direction.copy_(ours.weight_direction)
    assert torch.equal(model(TEXTS), unit_length(ours.sentence_vectors(TEXTS)))
    sentences = StaticSentences(model)
    assert torch.equal(sentences(sentences.tokenize(TEXTS))["sentence_embedding"], model(TEXTS))
    assert sentences.get_sentence_embedding_dimension() == 40


def test_eight_bits_halve_the_file_and_keep_the_vectors_also_without_xling(
    encoder: Path, tmp_path: Path
) -> None:
    made = quantize.run(QuantizeConfig(encoder, tmp_path / "int8"))
    assert made.counts["bytes"] < 0.75 * made.counts["bytes_before"]
    whole, rounded = (encoder_files.load_encoder(folder) for folder in (encoder, tmp_path / "int8"))
    # Half a step of each row is the largest error.
    steps = whole.table.abs().amax(1, keepdim=True) / 127
    assert ((whole.table - rounded.table).abs() <= steps * 0.501 + 1e-7).all()
    assert rounded.share == whole.share and rounded.cfg == whole.cfg
    run_hf(ExportConfig(tmp_path / "int8", tmp_path / "exported"))
    found = computed(tmp_path / "exported", tmp_path)
    expected = unit_length(rounded.sentence_vectors(TEXTS)).numpy()
    np.testing.assert_allclose(found["vectors"], expected, atol=1e-6)
    np.testing.assert_allclose(found["saved"], expected, atol=1e-6)
    again = source.run_hf(ImportConfig(tmp_path / "exported", tmp_path / "back"))
    assert again.stage == "import hf"
    assert torch.equal(encoder_files.load_encoder(tmp_path / "back").table, rounded.table)
    with pytest.raises(UserError, match="in 8 bits already"):
        quantize.run(QuantizeConfig(tmp_path / "int8", tmp_path / "twice"))


@pytest.mark.slow
def test_sentence_transformers_and_mteb_score_an_export_as_we_do(
    encoder: Path, exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The accuracy and the F1 of ``protocol=mteb`` are those of their evaluators on the same rows, to six decimals."""
    german = [
        "ein rotes Boot",
        "das Haus",
        "ein Boot",
        "Merkel 12",
        "die Katze",
        "Berlin 1999",
        "ein Hund",
        "Radio",
    ]
    english = [
        "a red boat",
        "the house",
        "a boat",
        "Merkel 12",
        "the cat",
        "Berlin in 1999",
        "one dog",
        "a radio",
    ]
    (tmp_path / "tatoeba").mkdir()
    for code, lines in (("deu", german), ("eng", english)):
        (tmp_path / f"tatoeba/deu-eng.{code}").write_text("".join(f"{line}\n" for line in lines))
    monkeypatch.setitem(suites()._entries, "tatoeba", dataclasses.replace(suites()["tatoeba"], files=()))
    words = ["eval", "tatoeba", f"checkpoint={encoder}", f"data={tmp_path}", f"out={tmp_path / 'eval'}"]
    assert cli.main([*words, "protocol=mteb", "systems=pretrained"]) == 0
    tables = json.loads((tmp_path / "eval/tables/scores.json").read_text())
    ours = {score["metric"]: score["value"] for score in tables["scores"] if score["lang"] == "de"}
    rows = json.dumps({"sentence1": german, "sentence2": english})
    environment = {"HOME": str(tmp_path), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = forked.run("-c", JUDGES, str(exported), rows, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    theirs = json.loads(done.stdout.rpartition("SCORES ")[2])
    assert 20 < ours["retrieval_accuracy"] < 90, "some are found and some are not"
    assert round(ours["retrieval_accuracy"] / 100, 6) == round(theirs["sentence-transformers"], 6)
    if "mteb" in theirs:  # it is not among the packages of developers
        assert round(ours["retrieval_accuracy"] / 100, 6) == round(theirs["mteb"]["accuracy"], 6)
        assert round(ours["retrieval_f1"] / 100, 6) == round(theirs["mteb"]["f1"], 6)

"""A language has one code everywhere: settings, files, models and shards of any spelling mean the same language."""

from __future__ import annotations

import dataclasses
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import numpy as np
import pytest
import torch

from xling.core import languages
from xling.core.commands.runner import STAGES, load
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.settings import config, schema, values
from xling.data.symbols import Symbols
from xling.models.files import model_folder, model_weights
from xling.text.files import shards
from xling.text.files import shards as shard_files

SPELLINGS = ("sw", "swh", "swa", "SW", "swh_Latn", "sw-KE", "sw-TZ", "sw_UG", "sw-Latn-KE")
CONVERT = {values.code_of, values.code_of_pair, values.code_of_side}
# These name languages in words of their own: a list or ``all``, which the command converts itself.
ELSEWHERE = {"corpus mono lang"}
OF_LANGUAGES = re.compile(
    r"^(their |only these |the )?(pivot )?languages?\b(?! model)|language (->|to |without)|^``src-tgt``"
)


def of_languages(cls: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The settings of a configuration whose type names a language, with their types."""
    for name, kind in get_type_hints(cls, include_extras=True).items():
        plain = schema.plain_type(get_type_hints(cls)[name])
        if dataclasses.is_dataclass(plain):
            yield from of_languages(plain, f"{prefix}{name}.")
        elif any(part in CONVERT for part in parts_of(kind)):
            yield prefix + name, kind


def parts_of(kind: Any) -> Iterator[Any]:
    if get_origin(kind) is Annotated:
        yield get_args(kind)[1]
    for part in get_args(kind):
        yield from parts_of(part)


SETTINGS = [
    (stage, name, kind) for stage in STAGES for name, kind in of_languages(load(STAGES[stage].config))
]


def given(kind: Any, spelling: str) -> tuple[Any, Any]:
    """A value of a setting in a spelling, and what it has to become."""
    if get_origin(kind) is Annotated:
        is_pair = get_args(kind)[1] is values.code_of_pair
        return (f"eng-{spelling}", "en-sw") if is_pair else (spelling, "sw")
    if get_origin(kind) is tuple:
        text, ours = given(get_args(kind)[0], spelling)
        return text, (ours,)
    name, value = get_args(kind)
    text, ours = given(name, spelling)
    word = "0.5" if value is float else "file"
    return {text: word}, {ours: {str: word, float: 0.5}.get(value, (word,))}


@pytest.mark.parametrize(
    ("stage", "name", "kind"), SETTINGS, ids=lambda each: each if isinstance(each, str) else "type"
)
def test_every_setting_of_a_language_takes_every_spelling(stage: str, name: str, kind: Any) -> None:
    for spelling in SPELLINGS:
        text, ours = given(kind, spelling)
        assert config._convert(kind, text, name, "the command line") == ours, spelling


def test_no_setting_that_names_languages_is_left_out() -> None:
    found = {f"{stage} {name}" for stage, name, _ in SETTINGS} | ELSEWHERE
    for stage in STAGES:
        for key in schema.keys(load(STAGES[stage].config)):
            is_text = key.kind in ("text", "list of text, separated by commas") or key.is_open
            if is_text and OF_LANGUAGES.search(key.meaning):
                assert f"{stage} {key.name}" in found, key.meaning
    assert len(found) >= 60


def test_settings_of_objectives_take_them_too() -> None:
    for spelling in SPELLINGS:
        written = {"langs": f"en,{spelling}", "pairs": f"en-{spelling}", "directions": f"{spelling}-eng_Latn"}
        read = config._convert(values.Objectives, {"tlm": {**written, "alpha": "0.3"}}, "objectives", "here")
        assert read["tlm"] == {"langs": "en,sw", "pairs": "en-sw", "directions": "sw-en", "alpha": "0.3"}


@pytest.mark.parametrize(
    ("stage", "setting"), [("binarize", "corpora"), ("vocab", "corpora"), ("finetune", "fit.switch")]
)
def test_two_spellings_of_one_language_are_an_error(stage: str, setting: str) -> None:
    words = [
        f"{key.name}=x" for key in schema.keys(load(STAGES[stage].config)) if key.required and not key.is_open
    ]
    with pytest.raises(UserError, match=rf"{setting}\.sw and {setting}\.swh mean the same: sw"):
        config.load(load(STAGES[stage].config), overrides=[*words, f"{setting}.sw=a", f"{setting}.swh=b"])


def test_paths_and_made_up_codes_stay_as_they_are() -> None:
    for text in ("eng_list.txt", "data/eng_Latn", "all", "qaa", "als", "en_ewt"):
        assert languages.canonical(text) == text
    assert languages.canonical_side("zh-CN") == "zh"
    assert languages.canonical_side("deu-eng") == "de-en"


@pytest.fixture(scope="module")
def old(bitext: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards whose folders have the codes of FLORES, as another program or an earlier version wrote them."""
    folder = tmp_path_factory.mktemp("old") / "shards"
    flores = {lang: languages.code_for(lang, "flores") for lang in ("en", "ar", "th")}
    made = manifest.read(bitext)
    with manifest.publish(folder, "binarize", made.config) as publication:
        publication.counts |= made.counts
        shutil.copytree(bitext, publication.path, dirs_exist_ok=True)
        (publication.path / manifest.FILE_NAME).unlink()
        for path in sorted(publication.path.rglob("*"), reverse=True):
            name = re.sub(r"(?<![a-z])(en|ar|th)(?![a-z])", lambda found: flores[found[1]], path.name)
            path.rename(path.with_name(name))
    return folder


def test_shards_under_other_codes_are_found(old: Path, bitext: Path) -> None:
    assert (old / "eng_Latn" / "train.bin").is_file()
    assert shards.select_langs("eng,arb_Arab", old) == ["en", "ar"]
    assert shards.select_pairs("eng-arb", old, ["en", "ar"]) == ["en-ar"]
    assert shards.pairs_of_directions("ara-en", ["en-ar"]) == "en-ar"
    for name in ("en/train", "en-ar/train.en-ar.ar", "en-ar/valid.en-ar.switched", "en-th/train.en-th.en"):
        ours, theirs = (shard_files.open_shard(folder / name).tokens for folder in (bitext, old))
        assert np.array_equal(ours, theirs), name


def test_two_folders_of_one_language_are_an_error(old: Path, tmp_path: Path) -> None:
    shutil.copytree(old, tmp_path / "both")
    shutil.copytree(old / "eng_Latn", tmp_path / "both" / "en")
    with pytest.raises(UserError, match=r"en and eng_Latn in .* are one language"):
        shards.select_langs("", tmp_path / "both")


@pytest.fixture(scope="module")
def with_vectors(old: Path, tiny: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder with a vector for each of en and ar, whose file has the codes of FLORES as older ones may."""
    from xling.training.settings import PretrainConfig
    from xling.training.train import run

    out = tmp_path_factory.mktemp("model") / "model"
    words = [*tiny, f"data={old}", f"out={out}", "train.updates=2", "train.warmup=1", "langs=eng,arb_Arab"]
    run(config.load(PretrainConfig, overrides=[*words, "model.lang_embeddings=true"]))
    state = torch.load(out / "model.pt", weights_only=True)
    assert state["langs"] == ["en", "ar"]
    state["weights"]["encoder.langs.weight"][1] += 1.0
    torch.save(state | {"langs": ["eng_Latn", "arb_Arab"]}, out / "model.pt")
    (out / "manifest.json").unlink()  # it has the digest of the weights before
    return out


def test_an_old_model_is_used_under_every_code(with_vectors: Path) -> None:
    assert model_folder.check_model(with_vectors, *model_folder.OURS)["langs"] == ["en", "ar"]
    from xling.transfer.words import CheckpointEncoder, word_vectors

    encoder = CheckpointEncoder(with_vectors)
    english = encoder.embed(["a red boat"], "en", -1, "mean")
    for spelling in ("eng_Latn", "eng", "EN", "en-US"):
        assert np.array_equal(encoder.embed(["a red boat"], spelling, -1, "mean"), english)
    assert not np.allclose(encoder.embed(["a red boat"], "arb_Arab", -1, "mean"), english)
    words = word_vectors(with_vectors, [["red", "boat"]], "arb")
    assert np.array_equal(words[0], word_vectors(with_vectors, [["red", "boat"]], "ar")[0])


def test_no_encoder_takes_the_first_language_for_an_unknown_one(with_vectors: Path, model: Path) -> None:
    from tests.tuning import fine_tune
    from xling.transfer.likelihood import MaskedLM
    from xling.transfer.settings import TuneConfig
    from xling.transfer.words import CheckpointEncoder, word_vectors

    said = "has a vector for each of its languages, and none for 'th'"
    with pytest.raises(UserError, match=said):
        CheckpointEncoder(with_vectors).embed(["text"], "th", -1, "mean")
    with pytest.raises(UserError, match=said):
        word_vectors(with_vectors, [["text"]], "th")
    with pytest.raises(UserError, match=said):
        MaskedLM(with_vectors).scores(["text"], "th")
    with pytest.raises(UserError, match=said):
        fine_tune(with_vectors, "classify", ["a", "b"], [], TuneConfig(), "th")
    assert CheckpointEncoder(model).embed(["text"], "qaa", -1, "mean").any()  # it has no such vectors


def test_a_decoder_finds_its_languages_under_every_code() -> None:
    for langs in (("en", "sw"), ("eng_Latn", "swh_Latn")):
        symbols = Symbols(100, langs)
        assert [symbols.index_of(spelling, "m") for spelling in SPELLINGS] == [1] * len(SPELLINGS)
        with pytest.raises(UserError, match="m was not trained on 'fr'"):
            symbols.index_of("fr", "m")


def test_weights_start_from_a_model_with_other_codes(
    with_vectors: Path, bitext: Path, tiny: tuple[str, ...], tmp_path: Path
) -> None:
    from xling.training.settings import PretrainConfig
    from xling.training.train import run

    words = [
        *tiny,
        f"data={bitext}",
        f"out={tmp_path}/next",
        "train.updates=1",
        "langs=en,ar",
        "train.lr=1e-9",
    ]
    more = ["model.lang_embeddings=true", f"init={with_vectors}", "train.warmup=0"]
    run(config.load(PretrainConfig, overrides=[*words, *more]))
    ours, theirs = (
        model_weights.load_model(folder)[0].encoder.langs.weight
        for folder in (tmp_path / "next", with_vectors)
    )
    assert torch.allclose(ours, theirs, atol=1e-5)

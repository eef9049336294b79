import gzip
import json
import os
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from browser import Browser

from tests.killed import attempts
from xling.core.commands import processes
from xling.core.commands.runner import run_local
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.settings import config
from xling.corpora.inspect.why import WhyConfig
from xling.corpora.inspect.why import run as why
from xling.corpora.parallel import read_phase, sources
from xling.corpora.parallel.build import run_part
from xling.corpora.parallel.publish_phase import split_of
from xling.corpora.parallel.settings import ParallelConfig, resolve
from xling.corpora.toyworld import para
from xling.static import encoder_files
from xling.static.shape import StaticConfig
from xling.static.vectors import StaticEncoder
from xling.text.words.features import hash_features

NAME = "corpus parallel"


def write(folder: Path, pairs, stem="text") -> str:
    for side, lang in ((0, "en"), (1, "de")):
        (folder / f"{stem}.{lang}").write_text("".join(p[side] + "\n" for p in pairs), encoding="utf-8")
    return f"moses:{folder / stem}"


def build(folder, source, **more):
    cfg = ParallelConfig("en-de", source=tuple(source), out=str(folder / "out"), **more)
    return cfg, run_local(NAME, cfg)


@pytest.fixture
def pairs():
    good = list(para("en", "de", 150, 1))
    bad = [("", "leer"), ("Same here", "Same here"), good[0], ("Built in 1984 here.", "Gebaut hier 1948.")]
    return [*good, *bad]


@pytest.mark.browser
@pytest.mark.axe
def test_the_card_in_a_browser(tmp_path, pairs):
    cfg, _ = build(tmp_path, [write(tmp_path, pairs)], dev_pairs=20, test_pairs=20)
    with Browser(tmp_path / "profile") as window:
        assert window.flaws(cfg.directory / "card.html") == []


def test_published_corpus_is_aligned_counted_and_carded(tmp_path, pairs):
    cfg, said = build(tmp_path, [write(tmp_path, pairs)], dev_pairs=20, test_pairs=20)
    out = cfg.directory
    found = manifest.verify(out)
    kept = pl.read_parquet(out / "shards" / "*.parquet")
    lost = pl.read_parquet(out / "rejects" / "*.parquet")
    assert kept.height + lost.height == len(pairs)
    assert kept["align"].is_between(0, 1).all()
    assert found.counts["pairs"] == kept.height
    assert sum(found.counts["dropped"].values()) == lost.height
    for split in ("train", "dev", "test"):
        shard = pl.read_parquet(out / "shards" / f"{split}.parquet")
        for side, lang in (("src", "en"), ("tgt", "de")):
            assert (out / f"{split}.{lang}").read_text(encoding="utf-8").splitlines() == shard[side].to_list()
    assert found.counts["dropped"]["empty/empty_src"] == 1
    assert found.counts["dropped"]["empty/identical"] == 1
    assert found.counts["dropped"]["numbers/number_mismatch"] == 1
    assert found.counts["dropped"]["duplicates/exact_pair"] >= 1
    assert f"{kept.height:,} of {len(pairs):,} pairs" in said
    card = (out / "card.md").read_text(encoding="utf-8")
    assert "Parallel corpus en-de" in card
    assert "pairs" in card
    assert "the numbers of the sides differ" in card


def test_a_rerun_does_nothing_and_other_text_or_settings_are_refused(tmp_path, pairs, monkeypatch):
    source = write(tmp_path, pairs)
    cfg, _ = build(tmp_path, [source])
    stamp = (cfg.directory / manifest.FILE_NAME).stat().st_mtime_ns
    assert "up to date" in build(tmp_path, [source])[1]
    with pytest.raises(UserError, match=r"finished and was made with other .*seed=1, now 2.*overwrite=true"):
        build(tmp_path, [source], seed=2)
    write(tmp_path, pairs[:100])
    with pytest.raises(UserError, match=r"text\.en has other content; .*overwrite=true"):
        build(tmp_path, [source])
    assert (cfg.directory / manifest.FILE_NAME).stat().st_mtime_ns == stamp
    monkeypatch.setenv(manifest.OVERWRITE_VARIABLE, "true")
    assert "up to date" not in build(tmp_path, [source])[1]
    assert json.loads((cfg.directory / "stats.json").read_text())["ledger"]["seen"]["read"] == 100


def test_the_same_files_at_another_path_are_the_same_corpus(tmp_path, pairs):
    cfg, _ = build(tmp_path, [write(tmp_path, pairs)])
    stamp = (cfg.directory / manifest.FILE_NAME).stat().st_mtime_ns
    (tmp_path / "moved").mkdir()
    source = write(tmp_path / "moved", pairs)
    for lang in ("en", "de"):
        (tmp_path / f"text.{lang}").unlink()
    assert "up to date" in build(tmp_path, [source])[1]
    assert (cfg.directory / manifest.FILE_NAME).stat().st_mtime_ns == stamp
    write(tmp_path / "moved", pairs[:100])
    with pytest.raises(UserError, match=r"moved/text\.en has other content; .*overwrite=true"):
        build(tmp_path, [source])


def test_a_damaged_manifest_is_made_again(tmp_path, pairs):
    source = write(tmp_path, pairs)
    cfg, told = build(tmp_path, [source])
    (cfg.directory / manifest.FILE_NAME).write_text("{", encoding="utf-8")
    assert build(tmp_path, [source])[1] == told
    manifest.verify(cfg.directory)


def test_workers_do_not_change_the_result(tmp_path, pairs):
    sources = [write(tmp_path, pairs[i::3], f"part{i}") for i in range(3)]
    digests = []
    for workers in (1, 2):
        folder = tmp_path / str(workers)
        cfg = ParallelConfig("en-de", source=tuple(sources), out=str(folder / "out"))
        run_local(NAME, cfg, num_workers=workers)
        digests.append(manifest.read(cfg.directory).files)
    assert digests[0] == digests[1]


def test_the_cores_share_the_batches_of_one_file(tmp_path, pairs, monkeypatch):
    monkeypatch.setattr(sources, "BATCH_PAIRS", 40)
    shared = []
    monkeypatch.setattr(
        processes, "in_order", lambda *given, real=processes.in_order: shared.append(given[2]) or real(*given)
    )
    rows = [f"{src}\t{tgt}" for src, tgt in pairs[4:]]
    rows[70:70] = ["one field", "a\tb\tc\td"]
    (tmp_path / "text.tsv").write_text(
        "\n".join([*rows, "the last one is damaged too"]) + "\n", encoding="utf-8"
    )
    made = {}
    for workers in (1, 3):
        cfg = ParallelConfig("en-de", (f"tsv:{tmp_path / 'text.tsv'}",), out=str(tmp_path / f"{workers}"))
        run_local(NAME, cfg, workers)
        made[workers] = {
            path.relative_to(cfg.directory): path.read_bytes()
            for path in cfg.directory.rglob("*")
            if path.is_file() and path.name != manifest.FILE_NAME
        }
    assert shared == [3]
    assert made[1] == made[3]
    monkeypatch.setattr(sources, "BATCH_PAIRS", 400)
    run_local(
        NAME, ParallelConfig("en-de", (f"tsv:{tmp_path / 'text.tsv'}",), out=str(tmp_path / "small")), 3
    )
    assert shared == [3], "one batch starts no process"
    assert json.loads(made[3][Path("stats.json")])["ledger"]["dropped"]["read\tmalformed"] == 3


def test_a_filter_that_no_process_can_have_runs_here(tmp_path, pairs):
    cfg = ParallelConfig("en-de", (write(tmp_path, pairs),), out=str(tmp_path / "out"))
    chain = resolve(cfg).chain
    assert read_phase.can_be_pickled(chain)
    chain.fitted_filters["empty"] = lambda: None
    assert not read_phase.can_be_pickled(chain)


def test_swapped_sides_are_detected_and_said(tmp_path, pairs):
    source = write(tmp_path, [(b, a) for a, b in pairs])
    with pytest.raises(UserError, match="sides are swapped"):
        build(tmp_path, [source])
    assert not (tmp_path / "out").exists()


def test_half_a_source_leaves_nothing(tmp_path, pairs):
    source = write(tmp_path, pairs)
    (tmp_path / "text.de").write_text("eins\nzwei\n")
    with pytest.raises(UserError, match="lines"):
        build(tmp_path, [source])
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.rglob("kept.parquet"))


def test_nothing_left_says_where_it_went(tmp_path):
    source = write(tmp_path, [("Same", "Same")] * 4)
    with pytest.raises(UserError, match="none of 4 pairs is left: empty/identical 4"):
        build(tmp_path, [source])
    (tmp_path / "text.de").write_text("a line too few\n")
    with pytest.raises(UserError, match="has 4 lines but"):
        build(tmp_path, [source])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text.de", "text.en"]


def test_why(tmp_path, pairs):
    cfg, _ = build(tmp_path, [write(tmp_path, pairs)], dev_pairs=0, test_pairs=0)
    corpus = str(cfg.directory)
    assert "numbers: number_mismatch (the numbers of the sides differ)" in why(
        WhyConfig("Built in 1984", corpus)
    )
    assert ": kept (" in why(WhyConfig("0/1", corpus))
    assert ": kept (" in why(WhyConfig(pairs[5][1].upper() + "!!", corpus))
    with pytest.raises(UserError, match="neither"):
        why(WhyConfig("Never written anywhere", corpus))


def test_documents_are_split_whole_and_nothing_leaks(tmp_path):
    rows = [(f"d{i // 10}", a, b) for i, (a, b) in enumerate(para("en", "de", 400, 3))]
    (tmp_path / "a.tsv").write_text(
        "doc\tsrc\ttgt\n" + "".join("\t".join(r) + "\n" for r in rows), encoding="utf-8"
    )
    cfg, _ = build(tmp_path, [f"tsv:{tmp_path}/a.tsv"], dev_pairs=30, test_pairs=30)
    shards = {s: pl.read_parquet(cfg.directory / "shards" / f"{s}.parquet") for s in ("train", "dev", "test")}
    docs = {s: set(t["doc"]) for s, t in shards.items()}
    assert docs["dev"]
    assert docs["test"]
    assert not docs["dev"] & docs["test"]
    assert not docs["train"] & (docs["dev"] | docs["test"])
    for side in ("src", "tgt"):
        assert not set(shards["train"][side]) & (set(shards["dev"][side]) | set(shards["test"][side]))
        assert not set(shards["dev"][side]) & set(shards["test"][side])


def test_the_split_takes_about_what_is_asked_and_at_most_a_tenth():
    kept = pl.DataFrame({"doc": [""] * 1000})
    chosen = split_of(kept, 50, 70, 1)
    assert [(chosen == name).sum() for name in ("train", "dev", "test")] == [880, 50, 70]
    assert (split_of(kept, 500, 0, 1) == "dev").sum() == 100
    assert np.array_equal(chosen, split_of(kept, 50, 70, 1))
    assert not np.array_equal(chosen, split_of(kept, 50, 70, 2))


def test_a_document_that_is_too_large_is_not_held_out():
    two = pl.DataFrame({"doc": ["a"] * 500 + ["b"] * 500})
    assert (split_of(two, 1000, 1000, 1) == "train").all()
    mixed = pl.DataFrame({"doc": ["a"] * 900 + [f"d{i // 10}" for i in range(100)]})
    for seed in range(5):
        chosen = split_of(mixed, 35, 1000, seed)
        assert (chosen[:900] == "train").all()
        assert [(chosen == name).sum() for name in ("dev", "test")] == [30, 70]


def test_a_changed_heldout_file_is_seen(tmp_path, pairs, monkeypatch):
    held = tmp_path / "held.txt"
    held.write_text("Nothing of this is in the corpus.\n", encoding="utf-8")
    source = [write(tmp_path, pairs)]
    cfg, _ = build(tmp_path, source, heldout=(str(held),), dev_pairs=0, test_pairs=0)
    leaked = (cfg.directory / "train.en").read_text(encoding="utf-8").splitlines()[:20]
    held.write_text("\n".join(leaked) + "\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"files.*now.*overwrite=true"):
        build(tmp_path, source, heldout=(str(held),), dev_pairs=0, test_pairs=0)
    monkeypatch.setenv(manifest.OVERWRITE_VARIABLE, "true")
    cfg, _ = build(tmp_path, source, heldout=(str(held),), dev_pairs=0, test_pairs=0)
    assert not set(leaked) & set((cfg.directory / "train.en").read_text(encoding="utf-8").splitlines())


def test_a_build_whose_twin_was_faster_is_done(tmp_path, pairs):
    source = [write(tmp_path, pairs)]
    cfg, told = build(tmp_path, source)
    assert run_part(cfg, "read", 0) is None
    workspace = resolve(cfg).workspace.root
    shutil.rmtree(workspace.parent, ignore_errors=True)

    def cleared(*_):
        raise FileNotFoundError(workspace)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("xling.corpora.parallel.build._run_part", cleared)
        assert run_part(cfg, "read", 0) is None
        assert str(run_part(cfg, "publish", 0)) == str(told)
        workspace.mkdir(parents=True)
        with pytest.raises(FileNotFoundError):
            run_part(cfg, "read", 0)


def test_a_checkpoint_scores_the_pairs(tmp_path, pairs, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("model").mkdir()
    Path("model/model.pt").write_bytes(b"weights")

    class Encoder:
        def __init__(self, path):
            assert path == Path("model")

        def embed(self, texts, lang, layer, pooling):
            size = 1.0 if lang == "en" else -1.0
            return np.array([[1.0, 0.0] if "2" not in t else [size, 1e-6] for t in texts], np.float32)

    monkeypatch.setattr("xling.text.encoders.encoder_of", Encoder)
    settings = {"score": {"threshold": "0.5"}}
    cfg, _ = build(
        tmp_path, [write(tmp_path, pairs)], checkpoint="model", settings=settings, dev_pairs=0, test_pairs=0
    )
    kept = pl.read_parquet(cfg.directory / "shards" / "train.parquet")
    assert kept["score"].min() > 0.9
    lost = pl.read_parquet(cfg.directory / "rejects" / "*.parquet").filter(pl.col("reason") == "low_score")
    assert lost.height > 0
    assert lost["src"].str.contains("2").all()


def static_encoder(folder: Path, meanings: dict[str, np.ndarray]) -> str:
    """Save a static encoder in which each word has the given vector."""
    bits, dim = 13, len(next(iter(meanings.values())))
    shares = np.zeros((len(meanings), 1 << bits), np.float32)
    for row, word in zip(shares, meanings, strict=True):
        places = hash_features(word) % (1 << bits)
        np.add.at(row, places, 1 / len(places))
    # Of all tables that give these vectors, the one with the least squares.
    table = shares.T @ np.linalg.solve(
        shares @ shares.T, np.stack(list(meanings.values())).astype(np.float32)
    )
    folder.mkdir()
    encoder_files.save_encoder(
        StaticEncoder(StaticConfig(dim=dim, bits=bits, sketch=0), torch.from_numpy(table), {}), folder
    )
    return str(folder)


def test_an_encoder_finds_unrelated_pairs_whose_words_occur_once(tmp_path):
    """No word occurs twice, so no lexicon knows them; the vectors of the target language are turned, too."""
    draw, num, num_wrong = np.random.default_rng(4), 400, 20
    words = iter(
        draw.permutation(
            sorted({"".join(draw.choice(list("bdfgklmnprstvaeiou"), 7)) for _ in range(7 * num)})
        ).tolist()
    )
    turn = np.linalg.qr(draw.standard_normal((16, 16)))[0]
    meanings, texts = {}, []
    for _ in range(num + num_wrong):
        sides = [[next(words) for _ in range(3)] for _ in range(2)]
        for src, tgt in zip(*sides, strict=True):
            meanings[src] = draw.standard_normal(16)
            meanings[tgt] = (meanings[src] + 0.1 * draw.standard_normal(16)) @ turn
        texts.append(tuple(" ".join(side) for side in sides))
    others = {src: tgt for (src, _), (_, tgt) in zip(texts[5:num:20], texts[num:], strict=True)}
    pairs = [(src, others.get(src, tgt)) for src, tgt in texts[:num]]
    only = {"filters": ("align",), "dev_pairs": 0, "test_pairs": 0, "audit": False}
    dropped = []
    for name in ("", static_encoder(tmp_path / "encoder", meanings)):
        out = tmp_path / ("with" if name else "without")
        out.mkdir()
        cfg, _ = build(out, [write(out, pairs)], checkpoint=name, **only)
        lost = pl.read_parquet(cfg.directory / "rejects" / "*.parquet").filter(pl.col("stage") == "align")
        dropped.append(set(lost["src"]))
    assert len(dropped[0] & others.keys()) <= 2
    assert len(dropped[1] & others.keys()) >= num_wrong - 2
    assert len(dropped[1] - others.keys()) <= 4


@pytest.mark.parametrize(
    ("make", "message"),
    [(lambda path: None, "no file or directory at"), (lambda path: path.mkdir(), "model")],
)
def test_a_checkpoint_that_is_none_is_told(tmp_path, pairs, make, message):
    make(tmp_path / "encoder")
    with pytest.raises(UserError, match=message):
        build(tmp_path, [write(tmp_path, pairs)], checkpoint=str(tmp_path / "encoder"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pair": "en"}, "pair"),
        ({"dev_pairs": -1}, "dev_pairs"),
        ({"heldout": ("none.txt",)}, "held-out"),
        ({"filters": ("lenght",)}, "length"),
        ({"settings": {"length": {"max_ratio": "0"}}}, "max_ratio=0.0; valid: a ratio from 1"),
    ],
)
def test_settings_are_checked(changes, message):
    with pytest.raises(UserError, match=message):
        ParallelConfig(**({"pair": "en-de"} | changes))


def test_killed_at_many_renames_it_ends_in_the_same_bytes(tmp_path):
    pairs = list(para("en", "de", 240, 1))
    sources = ",".join(write(tmp_path, pairs[i::4], f"p{i}") for i in range(4))
    command, out = ["corpus", "parallel", "pair=en-de", f"source={sources}"], tmp_path / "killed"
    modules = "polars,xling.corpora.parallel.build,xling.corpora.langid.identify:_py3langid"
    code, deaths = attempts([*command, f"out={out}"], modules, 3, calm=(out, tmp_path / "calm"))
    assert code == 0 and deaths > 1
    first, second = manifest.verify(out), manifest.read(tmp_path / "calm")
    assert first.files == second.files
    assert first.counts == second.counts


def test_a_side_of_the_test_set_leaves_the_training_set(tmp_path):
    """Every source sentence has two translations, in different documents: one of them may be held out."""
    rows = [
        (f"d{i % 40}", a, f"{b} {extra}")
        for extra in ("Ja.", "Nein.")
        for i, (a, b) in enumerate(para("en", "de", 400, 3))
    ]
    rows = [(f"{doc}{tgt[-3:]}", src, tgt) for doc, src, tgt in rows]
    (tmp_path / "a.tsv").write_text(
        "doc\tsrc\ttgt\n" + "".join("\t".join(r) + "\n" for r in rows), encoding="utf-8"
    )
    cfg, _ = build(tmp_path, [f"tsv:{tmp_path}/a.tsv"], dev_pairs=50, test_pairs=50)
    shards = {s: pl.read_parquet(cfg.directory / "shards" / f"{s}.parquet") for s in ("train", "dev", "test")}
    lost = pl.read_parquet(cfg.directory / "rejects" / "*.parquet")
    assert lost.filter(pl.col("reason") == "leak").height > 20
    assert not set(shards["train"]["src"]) & set(shards["test"]["src"])
    assert not set(shards["dev"]["src"]) & set(shards["test"]["src"])
    assert sum(t.height for t in shards.values()) + lost.height == len(rows)


def test_the_recipe_is_the_default_chain():
    recipe = Path(__file__).resolve().parents[3] / "recipes" / "parallel.yaml"
    cfg = config.load(ParallelConfig, recipe)
    assert cfg.filters == ParallelConfig("en-sw").filters
    assert cfg.chain() == ParallelConfig("en-sw").chain()


@pytest.mark.data
def test_real_news_keeps_most_pairs(tmp_path):
    stem = Path(os.environ["XLING_DATA"]) / "mafand" / "en-sw"
    heldout = (f"{stem}.dev.en", f"{stem}.dev.sw")
    for side in ("en", "sw"):
        lines = (
            gzip.decompress(Path(f"{stem}.train.{side}.gz").read_bytes()).decode().splitlines(keepends=True)
        )
        (tmp_path / f"train.{side}").write_text("".join(lines[::12]), encoding="utf-8")
    cfg = ParallelConfig(
        "en-sw",
        source=(f"moses:{tmp_path}/train",),
        heldout=heldout,
        out=str(tmp_path / "out"),
        audit=False,
    )
    run_local(NAME, cfg)
    counts = manifest.verify(cfg.directory).counts
    num = len(lines[::12])
    assert 0.92 * num < counts["pairs"] < 0.98 * num
    # Short right lines such as "We won." go too, but not more than 2 % of all.
    assert counts["dropped"]["langid/other_src"] + counts["dropped"]["langid/other_tgt"] < 0.02 * num
    assert counts["dropped"]["overlap/heldout_src"] > 2, (num, counts)


@pytest.mark.parametrize("kind", ["file", "device", "folder of others"])
def test_an_output_that_may_not_be_replaced_is_refused_before_anything_is_read(tmp_path, pairs, kind):
    source, out = write(tmp_path, pairs), tmp_path / "out"
    if kind == "file":
        out.write_text("mine", encoding="utf-8")
    elif kind == "device":
        out = Path(os.devnull)
    else:
        out.mkdir()
        (out / "mine").touch()
    cfg = ParallelConfig("en-de", source=(source,), out=str(out))
    with pytest.raises(UserError, match="was not made by xling"):
        run_local(NAME, cfg)
    assert not resolve(cfg).workspace.root.exists()

"""The last lines of ``corpus parallel`` count the rows of the file, and say what cannot be counted."""

import gzip

from xling.core.commands.runner import run_local
from xling.core.settings import config
from xling.corpora.parallel.publish_phase import summary
from xling.corpora.parallel.settings import ParallelConfig

NUM = 40
PAIRS = [(f"The library {i} opened in spring.", f"Maktaba {i} ilifunguliwa masika.") for i in range(NUM)]


def told(folder, name, content):
    """The summary of a corpus of one file."""
    (folder / name).write_bytes(content)
    data = {"pair": "en-sw", "out": str(folder / "out"), "source": f"{name.split('.')[1]}:{folder / name}"}
    data |= {"filters": "repair", "audit": "false", "dev_pairs": "0", "test_pairs": "0"}
    run_local("corpus parallel", config.from_dict(ParallelConfig, data))
    return summary(folder / "out")


def test_a_malformed_row_is_a_row_of_the_file(tmp_path):
    lines = [",".join(pair) for pair in PAIRS]
    lines[10] = f'"{lines[10]}'
    answer = told(tmp_path, "a.csv", ("en,sw\n" + "\n".join(lines) + "\n").encode())
    assert "en-sw: 39 of 40 pairs (97.5 %)" in answer
    assert answer.data["read"] == {"pairs": 40}


def test_a_truncated_file_is_told(tmp_path):
    units = "".join(
        f'<tu><tuv xml:lang="en"><seg>{a}</seg></tuv><tuv xml:lang="sw"><seg>{b}</seg></tuv></tu>'
        for a, b in PAIRS
    )
    content = gzip.compress(f"<tmx><body>{units}</body></tmx>".encode(), 0)
    answer = told(tmp_path, "a.tmx.gz", content[: len(content) // 2])
    assert "of 20 pairs" in answer or "of 21 pairs" in answer
    assert "1 truncated gzip file: what is missing behind its end is not counted" in answer

"""Licences of named sources, and scores of languages that were served before by their aligned rows.

Licences are those of the data sets that docs/hour.md lays out; a file of the same place may have another one. Scores
are those of docs/results.d/hour.md, by language, with the aligned rows that its encoders read.
"""

import math
import statistics

LICENCES = {
    "bible": "of each translation; many are in the public domain",
    "bli": "not stated",
    "indian": "CC BY-SA 3.0",
    "mafand": "CC BY-NC 4.0; articles under their publishers' terms",
    "multi30k": "research, not commercial",
    "nli": "CC BY-NC 4.0 and others",
    "po": "of each program",
    "seed": "CC BY-SA 4.0",
    "stories": "CC BY",
    "udhr": "public domain, as stated",
    "ntrex": "CC BY-SA 4.0",
    "tatoeba": "CC BY 2.0 FR",
}
NOT_STATED = "not stated"

FEWEST, NEAREST = 3, 5
SCORES: dict[str, dict[int, float]] = {
    "NTREX": {
        670: 80.7, 7412: 9.0, 9109: 81.4, 11688: 83.3, 15904: 72.8, 16378: 33.9, 18418: 86.4, 25371: 89.4, 31997: 96.5,
        32067: 95.4, 32136: 89.0, 32178: 95.9, 32262: 97.7, 32341: 68.8, 32413: 98.2, 33016: 97.9, 39645: 88.3,
        40169: 95.2, 41823: 54.8, 41835: 79.1, 42667: 98.2, 46877: 92.7, 48530: 92.6, 49646: 92.0, 49893: 91.3,
        60259: 40.7, 61613: 98.3, 62527: 97.7, 81553: 51.8, 92337: 97.7, 97607: 43.1,
    },
    "SIB-200": {
        670: 61.8, 695: 46.6, 2150: 34.8, 6193: 63.2, 7412: 43.6, 7925: 32.4, 8007: 56.4, 9109: 55.4, 11688: 64.2,
        15108: 62.7, 15904: 62.7, 16378: 48.5, 18418: 59.3, 25371: 67.2, 25942: 52.5, 31997: 66.7, 32067: 72.5,
        32136: 69.6, 32262: 75.5, 32341: 52.9, 32413: 73.0, 33016: 73.5, 39384: 63.7, 39645: 56.4, 40169: 70.6,
        41090: 66.2, 41835: 65.2, 42667: 69.6, 46877: 68.6, 48530: 61.3, 49646: 59.3, 49893: 67.2, 60259: 52.0,
        61613: 74.5, 62527: 71.1, 81553: 52.0, 92337: 79.9, 97607: 53.4,
    },
}  # fmt: skip
"""Suite -> aligned rows of a language -> its score with the hour's encoder, in percent."""


def licence_of(source: str) -> str:
    """Return the licence of a source of aligned text; that of one's own files is not stated."""
    return LICENCES.get(source, NOT_STATED)


def scores_near(suite: str, num_rows: int) -> tuple[float, float, float, int, bool]:
    """Return lowest, median and highest score of languages with half to twice as many rows, their number, and whether.

    Where there are fewer than `FEWEST`, the `NEAREST` languages stand there, and the last value says that this is
    extrapolated.
    """
    scores = SCORES[suite]
    near = [score for rows, score in scores.items() if num_rows / 2 <= rows <= 2 * num_rows]
    is_far = len(near) < FEWEST
    if is_far:
        order = sorted(scores, key=lambda rows: abs(math.log(rows / max(1, num_rows))))
        near = [scores[rows] for rows in order[:NEAREST]]
    return min(near), statistics.median(near), max(near), len(near), is_far

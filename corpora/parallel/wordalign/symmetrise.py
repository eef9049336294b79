"""Two directional word alignments into one: intersection, union and grow-diag-final-and.

Source: Koehn, Och and Marcu 2003 (grow-diag-final); Koehn et al. 2005, IWSLT (final-and).
"""

from collections.abc import Iterable

Link = tuple[int, int]

_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def grow_diag_final_and(forward: set[Link], backward: set[Link]) -> set[Link]:
    """Grow the intersection towards the union through neighbouring links, then add free-standing ones.

    Args:
        forward: links (source position, target position) with one source word per target word.
        backward: links (source position, target position) with one target word per source word.
    """
    union = forward | backward
    links = forward & backward
    src_done = {i for i, _ in links}
    tgt_done = {j for _, j in links}
    # First in, first out in source order, so that the outcome does not depend on the order of a set.
    queue = sorted(links)
    for i, j in queue:
        for di, dj in _NEIGHBOURS:
            neighbour = (i + di, j + dj)
            if (
                neighbour in union
                and neighbour not in links
                and (neighbour[0] not in src_done or neighbour[1] not in tgt_done)
            ):
                links.add(neighbour)
                src_done.add(neighbour[0])
                tgt_done.add(neighbour[1])
                queue.append(neighbour)
    for direction in (forward, backward):
        for i, j in sorted(direction):
            if i not in src_done and j not in tgt_done:
                links.add((i, j))
                src_done.add(i)
                tgt_done.add(j)
    return links


def intersection(forward: set[Link], backward: set[Link]) -> set[Link]:
    """Return links of both directions: precise, sparse."""
    return forward & backward


def union(forward: set[Link], backward: set[Link]) -> set[Link]:
    """Return links of either direction: complete, noisy."""
    return forward | backward


METHODS = {"grow-diag-final-and": grow_diag_final_and, "intersection": intersection, "union": union}


def format_pharaoh(links: Iterable[Link]) -> str:
    """Return links as ``0-0 1-2``, sorted by source then target position, from 0."""
    return " ".join(f"{i}-{j}" for i, j in sorted(links))


def parse_pharaoh(line: str) -> set[Link]:
    """Read ``0-0 1-2``.

    Raises:
        ValueError: an item is not two whole numbers joined by a hyphen.
    """
    links = set()
    for item in line.split():
        i, _, j = item.partition("-")
        links.add((int(i), int(j)))
    return links

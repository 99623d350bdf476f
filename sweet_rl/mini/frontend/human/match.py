"""Matches texts and elements of one page with those of the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import SequenceMatcher

from sweet_rl.mini.frontend.human.scene import Element, Text, color_distance

Pairs = list[tuple[int, int]]
"""Indices into the target's and the draft's list."""

_LIKE = 0.6
"""Similarity of wording from which two texts are versions of one."""


def match_texts(target: Sequence[Text], draft: Sequence[Text]) -> Pairs:
    """Same words first, the nearest of several; then similar words."""

    def same(i: int, j: int) -> float | None:
        return -_distance(target[i], draft[j]) if target[i].text == draft[j].text else None

    def alike(i: int, j: int) -> float | None:
        likeness = _likeness(target[i].text, draft[j].text)
        return likeness - _distance(target[i], draft[j]) / 1e5 if likeness >= _LIKE else None

    pairs = _greedy(range(len(target)), range(len(draft)), same)
    left = [i for i in range(len(target)) if i not in {i for i, _ in pairs}]
    over = [j for j in range(len(draft)) if j not in {j for _, j in pairs}]
    return pairs + _greedy(left, over, alike)


def match_elements(target: Sequence[Element], draft: Sequence[Element]) -> Pairs:
    """Of one kind, in about one place, or of one colour and size elsewhere."""

    def alike(i: int, j: int) -> float | None:
        one, other = target[i], draft[j]
        if one.kind != other.kind:
            return None
        overlap = _overlap(one, other)
        colors = 1.0
        if one.color is not None and other.color is not None:
            colors = 1 - min(1.0, 2 * color_distance(one.color, other.color))
        sizes = min(one.area, other.area) / max(one.area, other.area)
        elsewhere = colors > 0.8 and sizes > 0.6
        return overlap + colors + sizes if overlap > 0.25 or elsewhere else None

    return _greedy(range(len(target)), range(len(draft)), alike)


def _greedy(ones: Sequence[int], others: Sequence[int], score: Callable[[int, int], float | None]) -> Pairs:
    """The best pair first, then the best of the rest; a pair without a score is none."""
    scored = [(value, -i, -j) for i in ones for j in others if (value := score(i, j)) is not None]
    pairs: Pairs = []
    taken: tuple[set[int], set[int]] = (set(), set())
    for _, i, j in sorted(scored, reverse=True):
        if -i not in taken[0] and -j not in taken[1]:
            pairs.append((-i, -j))
            taken[0].add(-i)
            taken[1].add(-j)
    return pairs


def _likeness(one: str, other: str) -> float:
    """0 to 1; a text that is the beginning of the other one counts as the same, not finished yet."""
    if len(other) >= 40 and one.startswith(other):
        return 1.0
    matcher = SequenceMatcher(None, one.lower()[:400], other.lower()[:400], autojunk=False)
    if matcher.real_quick_ratio() < _LIKE or matcher.quick_ratio() < _LIKE:
        return 0.0
    return matcher.ratio()


def _distance(one: Text, other: Text) -> float:
    return abs(one.x - other.x) + abs(one.y - other.y)


def _overlap(one: Element, other: Element) -> float:
    """Intersection over union."""
    width = min(one.x + one.width, other.x + other.width) - max(one.x, other.x)
    height = min(one.y + one.height, other.y + other.height) - max(one.y, other.y)
    common = max(0.0, width) * max(0.0, height)
    return common / (one.area + other.area - common)

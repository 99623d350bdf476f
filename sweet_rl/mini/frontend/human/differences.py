"""Differences between two pages, as sentences with weights: about how many square pixels look wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sweet_rl.mini.frontend.human import words
from sweet_rl.mini.frontend.human.match import Pairs, match_elements, match_texts
from sweet_rl.mini.frontend.human.scene import Element, Scene, Text, color_distance

_READING: Final = 4.0
"""People look at texts first: what a text covers counts more than plain ground."""
_SAME_COLOR: Final = 0.03
_SAME_PLACE: Final = 6.0
"""Differences below this many pixels are not seen."""


@dataclass(frozen=True, slots=True)
class Remark:
    """A sentence, what it is about ("text", "color", "picture", "layout", "size"), and its weight."""

    weight: float
    about: str
    sentence: str


def describe(target: Scene) -> list[Remark]:
    """The wanted page, part by part, the most striking first."""
    ground = f"My page is {target.height} px tall, on a {words.color(target.background)} background."
    remarks = [Remark(10.0 * target.width * target.height, "layout", ground)]
    remarks += [_missing_element(element, target) for element in target.elements]
    remarks += [_missing_text(text, target, another=False) for text in target.texts]
    return _sorted(remarks)


def compare(target: Scene, draft: Scene) -> list[Remark]:
    """The changes that the draft needs, the most visible first; none where both look the same."""
    remarks = list(_page(target, draft))
    remarks += _elements(target, draft)
    texts = match_texts(target.texts, draft.texts)
    remarks += _texts(target, draft, texts)
    remarks += _arrangement(target, draft, texts)
    return _sorted(remarks)


def _sorted(remarks: list[Remark]) -> list[Remark]:
    return sorted(remarks, key=lambda remark: (-remark.weight, remark.sentence))


def _page(target: Scene, draft: Scene) -> Iterator[Remark]:
    whole = float(target.width * target.height)
    distance = color_distance(target.background, draft.background)
    if distance > 0.01:
        sentence = f"The page's background should be {words.color(target.background)}."
        yield Remark((0.1 + distance) * whole, "color", sentence)
    taller = abs(target.height - draft.height)
    if taller > _SAME_PLACE:
        sentence = f"The page should be {target.height} px tall, not {draft.height} px."
        yield Remark(0.5 * taller * target.width, "size", sentence)


def _elements(target: Scene, draft: Scene) -> Iterator[Remark]:
    pairs = match_elements(target.elements, draft.elements)
    for i, wanted in enumerate(target.elements):
        if i not in {i for i, _ in pairs}:
            yield _missing_element(wanted, target)
    for j, drawn in enumerate(draft.elements):
        if j not in {j for _, j in pairs}:
            called = words.begin(_called(drawn, draft))
            yield Remark(_weight(drawn, draft), _about(drawn), f"{called} is not on my page.")
    for i, j in pairs:
        yield from _changed_element(target.elements[i], draft.elements[j], draft)


def _changed_element(wanted: Element, drawn: Element, draft: Scene) -> Iterator[Remark]:
    changes, weight = [], 0.0
    if wanted.color and drawn.color and color_distance(wanted.color, drawn.color) > 0.01:
        changes.append(words.color(wanted.color))
        weight += (0.1 + color_distance(wanted.color, drawn.color)) * wanted.area
    moved = [abs(wanted.x - drawn.x), abs(wanted.y - drawn.y)]
    moved += [abs(wanted.width - drawn.width), abs(wanted.height - drawn.height)]
    if max(moved) > _SAME_PLACE:
        changes.append(f"{words.size(wanted)}, {words.place(wanted.x, wanted.y)}")
        weight += min(1.0, max(moved) / 100) * _weight(wanted, draft)
    if changes:
        called = words.begin(_called(drawn, draft))
        yield Remark(weight, _about(wanted), f"{called} should be {', '.join(changes)}.")


def _missing_element(wanted: Element, target: Scene) -> Remark:
    where = words.region(wanted.x + wanted.width / 2, wanted.y + wanted.height / 2, target)
    what = words.element(wanted, target)
    article = "an" if what[0] in "aeiou" else "a"
    place = words.place(wanted.x, wanted.y)
    sentence = f"{where} there should be {article} {what} of {words.size(wanted)}, {place}."
    return Remark(_weight(wanted, target), _about(wanted), sentence)


def _called(drawn: Element, draft: Scene) -> str:
    return f"the {words.element(drawn, draft)} {words.place(drawn.x, drawn.y)}"


def _weight(element: Element, scene: Scene) -> float:
    if element.color is None:
        return 0.7 * element.area
    return (0.1 + color_distance(element.color, scene.background)) * element.area


def _about(element: Element) -> str:
    return "color" if element.kind == "area" else "picture"


def _texts(target: Scene, draft: Scene, pairs: Pairs) -> Iterator[Remark]:
    known = {draft.texts[j].text for _, j in pairs}
    for i, wanted in enumerate(target.texts):
        if i not in {i for i, _ in pairs}:
            yield _missing_text(wanted, target, another=wanted.text in known)
    for i, j in pairs:
        yield from _changed_text(target.texts[i], draft, j)
    extra = [j for j in range(len(draft.texts)) if j not in {j for _, j in pairs}]
    for several in (extra[k : k + 6] for k in range(0, len(extra), 6)):
        called = words.listed(words.call(draft.texts, j) for j in several)
        verb = "is" if len(several) == 1 else "are"
        weight = _READING * sum(draft.texts[j].area for j in several)
        yield Remark(weight, "text", f"{words.begin(called)} {verb} not on my page.")


def _changed_text(wanted: Text, draft: Scene, j: int) -> Iterator[Remark]:
    drawn = draft.texts[j]
    called = words.begin(words.call(draft.texts, j))
    weight = 0.0
    should = "be"
    if wanted.text != drawn.text:
        if len(drawn.text) >= words.SHORT and wanted.text.startswith(drawn.text):
            rest = words.quote(wanted.text[len(drawn.text) :].strip())
            yield Remark(_READING * wanted.area, "text", f"{called} goes on: {rest}.")
        else:
            should, weight = f"read {words.quote(wanted.text)}", _READING * wanted.area
    changes = []
    if _set_otherwise(wanted, drawn):
        changes.append(words.letters(wanted))
        weight += 0.3 * _READING * wanted.area
    if off := _misplaced(wanted, drawn):
        changes.append(words.spread(wanted))
        weight += min(1.0, off / 100) * _READING * wanted.area
    if should == "be" and changes:
        yield Remark(weight, "text", f"{called} should be {', '.join(changes)}.")
    elif should != "be":
        yield Remark(weight, "text", f"{called} should {', '.join([should, *changes])}.")


def _missing_text(wanted: Text, target: Scene, *, another: bool) -> Remark:
    where = words.region(wanted.x + wanted.width / 2, wanted.y, target)
    sentence = (
        f"{where} there should be {'another' if another else 'the'} text {words.quote(wanted.text)} "
        f"{words.letters(wanted)}, {words.spread(wanted)}."
    )
    return Remark(_READING * wanted.area + 3000, "text", sentence)


def _set_otherwise(wanted: Text, drawn: Text) -> bool:
    return (
        abs(wanted.size - drawn.size) > 0.75
        or wanted.bold != drawn.bold
        or color_distance(wanted.color, drawn.color) > _SAME_COLOR
    )


def _misplaced(wanted: Text, drawn: Text) -> float:
    """By how many pixels a text is off; 0 where it cannot be seen."""
    off = max(abs(wanted.x - drawn.x), abs(wanted.y - drawn.y))
    if wanted.lines != drawn.lines:
        off = max(off, 50.0)
    return off if off > max(_SAME_PLACE, 0.2 * wanted.size) else 0.0


def _arrangement(target: Scene, draft: Scene, pairs: Pairs) -> Iterator[Remark]:
    """Columns and the order of sections, by their headlines: one remark on each is enough."""
    both = [(target.texts[i], draft.texts[j], words.call(draft.texts, j)) for i, j in pairs]
    heads = sorted(both, key=lambda pair: (-pair[0].size, -pair[0].area))[:8]
    columns, order = False, False
    for k, (one, one_drawn, one_called) in enumerate(heads):
        for other, other_drawn, other_called in heads[k + 1 :]:
            weight = 0.5 * _READING * (one.area + other.area)
            if not columns and _side_by_side(one, other) and not _side_by_side(one_drawn, other_drawn):
                columns = True
                sentence = f"{words.begin(one_called)} and {other_called} stand side by side on my page."
                yield Remark(weight, "layout", sentence)
            if not order and _above(one, other) and _above(other_drawn, one_drawn):
                order = True
                sentence = f"{words.begin(one_called)} comes above {other_called} on my page."
                yield Remark(weight, "layout", sentence)


def _side_by_side(one: Text, other: Text) -> bool:
    return abs(one.y - other.y) < 10 and (one.x + one.width <= other.x or other.x + other.width <= one.x)


def _above(one: Text, other: Text) -> bool:
    return one.y + one.height <= other.y

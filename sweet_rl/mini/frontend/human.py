"""The scripted human who compares both pages: deterministic, and without a model.

It says its differences in short sentences of one form, each with a weight: about how many square pixels look wrong.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from hashlib import sha256
from typing import Final, NamedTuple

from sweet_rl.browsers import Box, Color, PageContext
from sweet_rl.mini.frontend import scene
from sweet_rl.mini.frontend.scene import ORDINALS, Element, Scene, Text, color_distance, parse_page
from sweet_rl.types import Message, UserContext, UserReply

LIMIT: Final = 1000  # Characters of a reply: what the world lets the agent see
ALIKE: Final = "The two pages look alike to me."
NOTHING_SHOWN: Final = "I cannot see a page of yours yet, so this is what I have in mind."
_SHORT: Final = 50  # Characters by which a text is called once it is known
_LONG: Final = 600  # Characters of a new text that are read out at once
_READING: Final = 4.0  # People look at texts first: what a text covers counts more than plain ground
_SAME_COLOR: Final = 0.03
_SAME_PLACE: Final = 6.0  # Differences below this many pixels are not seen
_LIKE: Final = 0.6  # Similarity of wording from which two texts are versions of one

_TOPICS: Final = {
    "color": re.compile(r"\b(?:colou?rs?|palette|background|shades?|dark|light|theme)\b", re.IGNORECASE),
    "picture": re.compile(r"\b(?:images?|pictures?|photos?|logo|icons?|illustrations?)\b", re.IGNORECASE),
    "text": re.compile(r"\b(?:texts?|words?|wording|titles?|head(?:ing|line)s?|say|fonts?)\b", re.IGNORECASE),
}
_COLORS: Final[dict[str, Color]] = {
    "white": (255, 255, 255), "light grey": (225, 228, 232), "grey": (130, 135, 142), "dark grey": (58, 65, 78),
    "black": (0, 0, 0), "red": (225, 50, 50), "dark red": (140, 20, 25), "pink": (240, 120, 175),
    "light pink": (253, 220, 235), "orange": (248, 140, 40), "brown": (130, 80, 40), "yellow": (245, 200, 40),
    "light yellow": (253, 245, 190), "green": (20, 170, 110), "dark green": (10, 95, 60),
    "light green": (190, 240, 205), "teal": (25, 170, 160), "light blue": (185, 215, 250), "blue": (60, 125, 235),
    "dark blue": (30, 55, 130), "indigo": (95, 95, 235), "purple": (135, 75, 225), "light purple": (220, 210, 250),
}  # fmt: skip
Pairs = list[tuple[int, int]]


class Remark(NamedTuple):
    """A sentence, what it is about ("text", "color", "picture", "layout", "size"), and its weight."""

    weight: float
    about: str
    sentence: str


class ScriptedViewer:
    """Compares what two browsers' windows show; an agent without a page hears of the wanted one, nothing twice."""

    name = "scripted"

    def __init__(self) -> None:
        self._targets: OrderedDict[tuple[bytes, tuple[Box, ...]], Scene] = OrderedDict()

    async def reply(self, context: UserContext) -> UserReply:
        if not isinstance(context, PageContext):
            raise TypeError("a human with eyes needs a PageContext")
        return UserReply(await asyncio.to_thread(self.answer, context))

    async def close(self) -> None:
        """Nothing to free."""

    def answer(self, context: PageContext) -> str:
        page = context.target
        key = (sha256(page.image).digest(), page.boxes)
        target = self._targets.pop(key, None) or parse_page(page)
        self._targets[key] = target  # the last one to be forgotten
        while len(self._targets) > 256:
            self._targets.popitem(last=False)
        if context.draft is None:
            sentences = _about_the_target(target, context.messages)
        else:
            sentences = [remark.sentence for remark in compare(target, parse_page(context.draft))] or [ALIKE]
        chosen, room = [], LIMIT
        for sentence in sentences:  # one that does not fit leaves its room to shorter ones
            if len(sentence) <= room:
                chosen.append(sentence)
                room -= len(sentence) + 1
        return " ".join(chosen)


def _about_the_target(target: Scene, messages: Sequence[Message]) -> list[str]:
    """The wanted page, part by part: what was asked about and was not said yet, the most striking first."""
    ground = f"My page is {target.height} px tall, on a {_color(target.background)} background."
    remarks = [Remark(10.0 * target.width * target.height, "layout", ground)]
    remarks += [_missing_element(element, target) for element in target.elements]
    remarks += [_missing_text(text, target, another=False) for text in target.texts]
    earlier = "\n".join(message.content for message in messages if message.role == "user")
    asked = next((m.content for m in reversed(messages) if m.role == "assistant"), "")
    topics = {topic for topic, pattern in _TOPICS.items() if pattern.search(asked)}
    remarks = _sorted(remarks)
    new = [remark for remark in remarks if remark.sentence not in earlier]
    new.sort(key=lambda remark: remark.about not in topics)  # stable: the most striking first within each
    return [NOTHING_SHOWN, *(remark.sentence for remark in new or remarks)]


def compare(target: Scene, draft: Scene) -> list[Remark]:
    """The changes that the draft needs, the most visible first; none where both look the same."""
    texts = _match_texts(target.texts, draft.texts)
    remarks = [*_page(target, draft), *_elements(target, draft), *_texts(target, draft, texts)]
    return _sorted([*remarks, *_arrangement(target, draft, texts)])


def _sorted(remarks: list[Remark]) -> list[Remark]:
    return sorted(remarks, key=lambda remark: (-remark.weight, remark.sentence))


def _page(target: Scene, draft: Scene) -> Iterator[Remark]:
    distance = color_distance(target.background, draft.background)
    if distance > 0.01:
        sentence = f"The page's background should be {_color(target.background)}."
        yield Remark((0.1 + distance) * float(target.width * target.height), "color", sentence)
    taller = abs(target.height - draft.height)
    if taller > _SAME_PLACE:
        sentence = f"The page should be {target.height} px tall, not {draft.height} px."
        yield Remark(0.5 * taller * target.width, "size", sentence)


def _elements(target: Scene, draft: Scene) -> Iterator[Remark]:
    pairs = _match_elements(target.elements, draft.elements)
    for i, wanted in enumerate(target.elements):
        if i not in {i for i, _ in pairs}:
            yield _missing_element(wanted, target)
    for j, drawn in enumerate(draft.elements):
        if j not in {j for _, j in pairs}:
            sentence = f"The {_noun(drawn, draft)} {_place(drawn)} is not on my page."
            yield Remark(_weight(drawn, draft), _about(drawn), sentence)
    for wanted, drawn in ((target.elements[i], draft.elements[j]) for i, j in pairs):
        changes, weight = [], 0.0
        if wanted.color and drawn.color and color_distance(wanted.color, drawn.color) > 0.01:
            changes.append(_color(wanted.color))
            weight += (0.1 + color_distance(wanted.color, drawn.color)) * wanted.area
        moved = max(
            abs(wanted.x - drawn.x),
            abs(wanted.y - drawn.y),
            abs(wanted.width - drawn.width),
            abs(wanted.height - drawn.height),
        )
        if moved > _SAME_PLACE:
            changes.append(f"{_size(wanted)}, {_place(wanted)}")
            weight += min(1.0, moved / 100) * _weight(wanted, draft)
        if changes:
            sentence = f"The {_noun(drawn, draft)} {_place(drawn)} should be {', '.join(changes)}."
            yield Remark(weight, _about(wanted), sentence)


def _missing_element(wanted: Element, target: Scene) -> Remark:
    where = _region(wanted.x + wanted.width / 2, wanted.y + wanted.height / 2, target)
    what = _noun(wanted, target)
    article = "an" if what[0] in "aeiou" else "a"
    sentence = f"{where} there should be {article} {what} of {_size(wanted)}, {_place(wanted)}."
    return Remark(_weight(wanted, target), _about(wanted), sentence)


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
        *rest, last = (_call(draft.texts, j) for j in several)
        called = f"{', '.join(rest)} and {last}" if rest else last
        verb = "is" if len(several) == 1 else "are"
        weight = _READING * sum(draft.texts[j].area for j in several)
        yield Remark(weight, "text", f"{_begin(called)} {verb} not on my page.")


def _changed_text(wanted: Text, draft: Scene, j: int) -> Iterator[Remark]:
    drawn = draft.texts[j]
    called = _begin(_call(draft.texts, j))
    weight = 0.0
    should = "be"
    if wanted.text != drawn.text:
        if len(drawn.text) >= _SHORT and wanted.text.startswith(drawn.text):
            rest = _quote(wanted.text[len(drawn.text) :].strip())
            yield Remark(_READING * wanted.area, "text", f"{called} goes on: {rest}.")
        else:
            should, weight = f"read {_quote(wanted.text)}", _READING * wanted.area
    changes = []
    if (
        abs(wanted.size - drawn.size) > 0.75
        or wanted.bold != drawn.bold
        or color_distance(wanted.color, drawn.color) > _SAME_COLOR
    ):
        changes.append(_letters(wanted))
        weight += 0.3 * _READING * wanted.area
    off = max(abs(wanted.x - drawn.x), abs(wanted.y - drawn.y), 50.0 * (wanted.lines != drawn.lines))
    if off > max(_SAME_PLACE, 0.2 * wanted.size):
        changes.append(_spread(wanted))
        weight += min(1.0, off / 100) * _READING * wanted.area
    if should == "be" and changes:
        yield Remark(weight, "text", f"{called} should be {', '.join(changes)}.")
    elif should != "be":
        yield Remark(weight, "text", f"{called} should {', '.join([should, *changes])}.")


def _missing_text(wanted: Text, target: Scene, *, another: bool) -> Remark:
    where = _region(wanted.x + wanted.width / 2, wanted.y, target)
    which = "another" if another else "the"
    what = f"{which} text {_quote(wanted.text)} {_letters(wanted)}, {_spread(wanted)}"
    return Remark(_READING * wanted.area + 3000, "text", f"{where} there should be {what}.")


def _arrangement(target: Scene, draft: Scene, pairs: Pairs) -> Iterator[Remark]:
    """Columns and the order of sections, by their headlines: one remark on each is enough."""

    def beside(one: Text, other: Text) -> bool:
        apart = one.x + one.width <= other.x or other.x + other.width <= one.x
        return abs(one.y - other.y) < 10 and apart

    def above(one: Text, other: Text) -> bool:
        return one.y + one.height <= other.y

    both = [(target.texts[i], draft.texts[j], _call(draft.texts, j)) for i, j in pairs]
    heads = sorted(both, key=lambda pair: (-pair[0].size, -pair[0].area))[:8]
    columns, order = False, False
    for k, (one, one_drawn, one_called) in enumerate(heads):
        for other, other_drawn, other_called in heads[k + 1 :]:
            weight = 0.5 * _READING * (one.area + other.area)
            if not columns and beside(one, other) and not beside(one_drawn, other_drawn):
                columns = True
                sentence = f"{_begin(one_called)} and {other_called} stand side by side on my page."
                yield Remark(weight, "layout", sentence)
            if not order and above(one, other) and above(other_drawn, one_drawn):
                order = True
                yield Remark(weight, "layout", f"{_begin(one_called)} comes above {other_called} on my page.")


def _match_texts(target: Sequence[Text], draft: Sequence[Text]) -> Pairs:
    """Same words first, the nearest of several; then similar words."""

    def distance(i: int, j: int) -> float:
        return abs(target[i].x - draft[j].x) + abs(target[i].y - draft[j].y)

    def same(i: int, j: int) -> float | None:
        return -distance(i, j) if target[i].text == draft[j].text else None

    def alike(i: int, j: int) -> float | None:
        one, other = target[i].text, draft[j].text
        if len(other) >= 40 and one.startswith(other):  # the same, not finished yet
            return 1.0 - distance(i, j) / 1e5
        matcher = SequenceMatcher(None, one.lower()[:400], other.lower()[:400], autojunk=False)
        if matcher.real_quick_ratio() < _LIKE or matcher.quick_ratio() < _LIKE:
            return None
        ratio = matcher.ratio()
        return ratio - distance(i, j) / 1e5 if ratio >= _LIKE else None

    pairs = _greedy(range(len(target)), range(len(draft)), same)
    left = [i for i in range(len(target)) if i not in {i for i, _ in pairs}]
    over = [j for j in range(len(draft)) if j not in {j for _, j in pairs}]
    return pairs + _greedy(left, over, alike)


def _match_elements(target: Sequence[Element], draft: Sequence[Element]) -> Pairs:
    """Of one kind, in about one place, or of one colour and size elsewhere."""

    def alike(i: int, j: int) -> float | None:
        one, other = target[i], draft[j]
        if one.kind != other.kind:
            return None
        common = scene.common_area(one, other)
        overlap = common / (one.area + other.area - common)
        colors = 1.0
        if one.color is not None and other.color is not None:
            colors = 1 - min(1.0, 2 * color_distance(one.color, other.color))
        sizes = min(one.area, other.area) / max(one.area, other.area)
        elsewhere = colors > 0.8 and sizes > 0.6
        return overlap + colors + sizes if overlap > 0.25 or elsewhere else None

    return _greedy(range(len(target)), range(len(draft)), alike)


def _greedy(ones: Sequence[int], others: Sequence[int], score: Callable[[int, int], float | None]) -> Pairs:
    scored = [(value, -i, -j) for i in ones for j in others if (value := score(i, j)) is not None]
    pairs: dict[int, int] = {}
    taken: set[int] = set()
    for _, i, j in sorted(scored, reverse=True):
        if -i not in pairs and -j not in taken:
            pairs[-i] = -j
            taken.add(-j)
    return list(pairs.items())


def _color(value: Color) -> str:
    name = min(_COLORS, key=lambda name: color_distance(_COLORS[name], value))
    return f"{name} (#{value[0]:02x}{value[1]:02x}{value[2]:02x})"


def _place(what: Element | Text) -> str:
    return f"{round(what.x)} px from the left and {round(what.y)} px from the top"


def _region(x: float, y: float, scene: Scene) -> str:
    """The part of the page that a point lies in; what stands outside the page belongs to the nearest."""
    column = ("left", "", "right")[max(0, min(2, int(3 * x / max(1, scene.width))))]
    row = ("top", "", "bottom")[max(0, min(2, int(3 * y / max(1, scene.height))))]
    if row:
        return f"At the {row} {column}".rstrip()
    return f"On the {column}" if column else "In the middle"


def _letters(text: Text) -> str:
    return f"in {'bold ' if text.bold else ''}{_color(text.color)} letters of {round(text.size)} px"


def _spread(text: Text) -> str:
    description = f"{_place(text)}, {round(text.width)} px wide"
    if text.lines > 1:
        centred = "centred " if text.centred else ""
        description += f", in {text.lines} {centred}lines of {round(text.line_height)} px each"
    return description


def _noun(what: Element, scene: Scene) -> str:
    if what.color is None:
        return what.kind
    return f"{_color(what.color)} {'band' if what.width > 0.97 * scene.width else 'box'}"


def _size(what: Element) -> str:
    return f"{round(what.width)} by {round(what.height)} px"


def _quote(text: str, limit: int = _LONG) -> str:
    """A text in quotes, its end left out where it is long."""
    return f"“{text if len(text) <= limit else text[:limit].rstrip() + '…'}”"


def _call(texts: Sequence[Text], index: int) -> str:
    """A text that both have, distinguished from others with the same beginning; `texts` are in reading order."""
    label = _quote(texts[index].text, _SHORT)
    same = [i for i, text in enumerate(texts) if _quote(text.text, _SHORT) == label]
    number = same.index(index)
    return label if len(same) == 1 or number >= len(ORDINALS) else f"the {ORDINALS[number]} {label}"


def _begin(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]

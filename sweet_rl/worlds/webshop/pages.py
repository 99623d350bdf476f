"""A shop's pages as its agent reads them: addresses, text, clickable elements, and a whole visit as text for
a model.

`published` is how the published client behaves, faults included; the default is the repaired behaviour.
Published behaviour: docs/published/archer.md#webshop, #deviations.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from html.parser import HTMLParser
from typing import Final, NamedTuple
from urllib.parse import quote

from sweet_rl.chat.formats import without_system
from sweet_rl.types import Message

Options = Mapping[str, str]

SCORE_PHRASE: Final = "Your score (min 0.0, max 1.0)"
SHOWN_PRODUCTS: Final = 3
"""Products of a result page that the text shows."""
CLOSED: Final = "The turn limit was reached before this action: it did nothing."

_UNSEEN: Final = frozenset({"style", "script", "head", "title", "meta"})
_VOID: Final = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
)
_INSTRUCTION_BEGINS: Final = "Instruction:  \n"
_INSTRUCTION_ENDS: Final = "\n[Search]"


class PageKind(StrEnum):
    """A kind of page, by the first part of its path; the start page's path begins with the session."""

    START = "start"
    SEARCH = "search_results"
    ITEM = "item_page"
    SUB = "item_sub_page"
    DONE = "done"


_NEEDED: Final[Mapping[PageKind, frozenset[str]]] = {
    PageKind.START: frozenset({"Search"}),
    PageKind.SEARCH: frozenset({"Back to Search"}),
    PageKind.ITEM: frozenset({"Back to Search", "Buy Now"}),
    PageKind.SUB: frozenset({"Back to Search", "< Prev"}),
    PageKind.DONE: frozenset(),
}
"""The buttons that every page of a kind has."""


@dataclass(frozen=True, slots=True)
class Address:
    """One page of a session. Parts that its kind has no use for are kept, so that "< Prev" finds its way.

    `raw`: as published, a query goes into the address as it is, so that `/`, `?` and `#` in it, or nothing
    at all, ask for a page that there is not; and what comes with an error's status is read like a page.
    """

    kind: PageKind
    session: str
    query: str = ""
    page: int = 1
    asin: str = ""
    subpage: str = ""
    options: Options = field(default_factory=dict)
    raw: bool = False

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the path, as they read."""
        chosen, searched = str(dict(self.options)), (self.query, str(self.page))
        return {
            PageKind.START: (self.session,),
            PageKind.SEARCH: (self.kind, self.session, *searched),
            PageKind.ITEM: (self.kind, self.session, self.asin, *searched, chosen),
            PageKind.SUB: (self.kind, self.session, self.asin, *searched, self.subpage, chosen),
            PageKind.DONE: (self.kind, self.session, self.asin, chosen),
        }[self.kind]

    @property
    def readable(self) -> str:
        """The path, unescaped, for messages and for the published test of selected options."""
        return "/" + "/".join(self.parts)

    @property
    def path(self) -> str:
        """The path as it is sent, percent-encoded. What UTF-8 cannot hold becomes a question mark."""
        if self.raw:
            return _as_requests_sends(self.readable)
        return "/" + "/".join(quote(part, safe="", errors="replace") for part in self.parts)


def _as_requests_sends(path: str) -> str:
    """What the package requests makes of a path that is not quoted: `/`, `?` and `#` mean what they mean."""
    path, mark, query = path.partition("#")[0].partition("?")
    parts: list[str] = []
    for part in path.split("/")[1:]:
        if part == "..":
            del parts[-1:]
        elif part != ".":
            parts.append(part)
    ending = [""] if path.endswith(("/.", "/..")) else []
    return _escaped("/" + "/".join([*parts, *ending])) + mark + _escaped(query, also="?")


def _escaped(text: str, also: str = "") -> str:
    """Percent-encoded; escapes in the text stay what they are if each percent sign begins one."""
    escapes = len(re.findall("%[0-9A-Fa-f]{2}", text)) == text.count("%")
    return quote(text, safe=f"/!$&'()*+,;=:@~{also}{'%' * escapes}", errors="replace")


class OddPage(ValueError):
    """This is no page that a shop returns at this address; says what it lacks."""


class Node(NamedTuple):
    """A visible piece of text between two tags or comments; `kind` is what contains it: button, label, product, text."""

    text: str
    kind: str


@dataclass(frozen=True, slots=True)
class Page:
    """What there is on a page: `options` maps each value to its type ("red" to "color"), `shown` are the
    products whose names are in the text, `score` is the purchase's, on the last page."""

    text: str
    buttons: frozenset[str] = frozenset()
    options: dict[str, str] = field(default_factory=dict)
    shown: tuple[str, ...] = ()
    products: tuple[str, ...] = ()
    score: float | None = None


def read_page(html: str, address: Address, *, published: bool = False) -> Page:
    """Read a page that was fetched from `address`. One that lacks what every page of its kind has is refused, or, as
    published, read as it is."""
    nodes = visible_nodes(html)
    texts = [node.text for node in nodes if published or node.text.strip()]
    if SCORE_PHRASE in texts:  # the last page, which says nothing but the score
        said = "".join(texts[texts.index(SCORE_PHRASE) + 1 :][:1])
        try:
            score = float(said)
        except ValueError:
            score = math.nan
        if not math.isfinite(score):
            raise OddPage(f"the score is no finite number: {said!r}")
        page = Page(f"{SCORE_PHRASE}: {said}", score=score)
    else:
        page = _read_nodes(nodes, address, published=published)
    if published:
        return page
    if missing := sorted(_NEEDED[address.kind] - page.buttons):
        raise OddPage(f"the button {missing[0]!r} is missing")
    if address.kind is PageKind.START and shop_instruction(page.text) is None:
        raise OddPage("there is no instruction")
    if (address.kind is PageKind.DONE) != (page.score is not None):
        raise OddPage(f"{SCORE_PHRASE!r} is missing" if page.score is None else "there is a score already")
    return page


def visible_nodes(html: str) -> list[Node]:
    """The visible text of a page, blank pieces included. A page without HTML is text."""
    reader = _NodeReader()
    try:
        reader.feed(html)
        reader.close()
    except AssertionError as error:  # what the parser of Python 3.11 makes of "<![x"
        raise OddPage(f"it is broken HTML: {error}") from None
    reader.end_node()
    return reader.nodes


def _read_nodes(nodes: Sequence[Node], address: Address, *, published: bool) -> Page:
    pieces: list[str] = []
    buttons: set[str] = set()
    options: dict[str, str] = {}
    products: list[str] = []
    option_type = ""
    texts_left_out = 0 if address.kind is PageKind.START else 2  # the instruction, which the agent has seen
    for text, kind in nodes:
        if not text.strip():
            continue
        match kind:
            case "button":
                buttons.add(text.strip())
                pieces.append(f"\n[{text}] ")
            case "label":
                options[text] = option_type
                selected = address.options.get(option_type) == text
                if published:  # so that values whose repr has double quotes never are
                    selected = f"'{text}'" in address.readable
                pieces.append(f"[[{text}]]" if selected else f"[{text}]")
            case "product":
                products.append(text)
                if len(products) <= SHOWN_PRODUCTS:
                    pieces.append(f"\n[{text}] ")
                else:
                    texts_left_out = 2  # its name and its price
            case _:
                option_type = text
                if texts_left_out:
                    texts_left_out -= 1
                else:
                    pieces.append(f"\n{text} ")
    text = "".join(pieces)
    if published:  # backslash sequences in the text are interpreted
        try:
            with warnings.catch_warnings():  # of a backslash that begins nothing
                warnings.simplefilter("ignore", DeprecationWarning)
                text = text.encode().decode("unicode_escape").encode("latin-1").decode()
        except UnicodeError as error:
            raise OddPage(f"its text cannot be decoded again: {error}") from None
    return Page(text, frozenset(buttons), options, tuple(products[:SHOWN_PRODUCTS]), tuple(products))


class _NodeReader(HTMLParser):
    """Collects text by the element that it stands in. Tags never closed, or never opened, do no harm."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.nodes: list[Node] = []
        # tags, and the kind of what they contain; none of what is not seen
        self._open: list[tuple[str, str]] = []
        self._text: list[str] = []
        self._unfinished = 0

    def check_for_whole_start_tag(self, i: int) -> int:
        return self._ended(super().check_for_whole_start_tag(i))

    def parse_comment(self, i: int, report: bool = True) -> int:
        return self._ended(super().parse_comment(i, report))

    def _ended(self, end: int) -> int:
        self._unfinished += end < 0
        if self._unfinished > 100:  # each was looked for up to the end of the page
            raise OddPage("it is broken HTML: more than 100 tags or comments have no end")
        return end

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.end_node()
        if tag not in _VOID:
            is_product = "product-link" in (dict(attrs).get("class") or "").split()
            kind = tag if tag in {"button", "label"} else "product" if is_product else "text"
            self._open.append((tag, "" if tag in _UNSEEN else kind))

    def handle_endtag(self, tag: str) -> None:
        self.end_node()
        for depth in range(len(self._open) - 1, -1, -1):
            if self._open[depth][0] == tag:
                del self._open[depth:]
                return

    def handle_data(self, data: str) -> None:
        self._text.append(data)

    def end_node(self, _: str = "") -> None:
        """Keep the text since the last tag or comment, if it can be seen."""
        kind = self._open[-1][1] if self._open else "text"
        if self._text and kind:
            self.nodes.append(Node("".join(self._text), kind))
        self._text.clear()

    handle_comment = handle_decl = handle_pi = unknown_decl = end_node  # type: ignore[assignment]


class ShopTranscript:
    r"""WebShop: all pages and actions, then the instruction once more.

    A page is written as `"\nObservation:\n{page}"`, an action as `"\nAction:\n{action}"`. The instruction is
    found in the first page; at the end it survives when a model's reader cuts the text on the left. A first
    page without one gives no such ending. After the published turn limit (`CLOSED` as last page) the text
    is that of the visit before the last action, without such an ending.
    """

    def render(self, messages: Sequence[Message]) -> str:
        """The visit so far and, after `Instruction:`, the goal."""
        spoken = without_system(messages)
        closed = len(spoken) > 1 and spoken[-1].content == CLOSED
        if closed:
            spoken = spoken[:-2]
        transcript = "".join(
            f"\nAction:\n{message.content}"
            if message.role == "assistant"
            else f"\nObservation:\n{message.content}"
            for message in spoken
        )
        instruction = shop_instruction(spoken[0].content) if spoken else None
        return transcript if closed or instruction is None else f"{transcript}\nInstruction:\n{instruction}"


def shop_instruction(page: str) -> str | None:
    """What the start page of a shop asks for, a trailing blank included; None where it asks nothing."""
    _, found, rest = page.partition(_INSTRUCTION_BEGINS)
    instruction, ended, _ = rest.rpartition(_INSTRUCTION_ENDS)
    return instruction if found and ended else None

"""Mini-web: pages for Frontend Design that need no download, generated from a seed.

The first k pages of a longer list are the shorter list; two pages of one list never have the same arrangement, and the
splits share none. Words and classes are in `pages.json`. Published behaviour: docs/published/sweet_rl.md#files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, TypeVar
from xml.etree.ElementTree import Element, fromstring

from jinja2 import Environment, PackageLoader, StrictUndefined

from sweet_rl.errors import UsageError
from sweet_rl.types import Json, derive_seed, digest

T = TypeVar("T")
Look = dict[str, Any]
"""Classes by purpose, the colour's name, whether it is `dark`, and the plain `css` that some classes need."""

SPLITS = ("train", "test")

TAILWIND = "https://cdn.jsdelivr.net/npm/tailwindcss@2.2.19/dist/tailwind.min.css"

WORDS: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))

KINDS = tuple(WORDS["purposes"])  # Of pages, in the order in which they take turns; each is a template
_MACROS = (
    "site.html.j2",
    "blocks.html.j2",
    "frame.html.j2",
)  # Known to each other, and to every kind of page
_VOID = frozenset({"br", "hr", "img", "input", "link"})


@dataclass(frozen=True, slots=True)
class Page:
    """One drawn page, its body still a tree. `request` is what the agent is given."""

    body: Element
    css: tuple[str, ...]
    request: str

    @property
    def arrangement(self) -> str:
        return digest([*self.css, arrangement(self.body)])

    @property
    def html(self) -> str:
        link = f'<link href="{TAILWIND}" rel="stylesheet">'
        style = ["<style>", *self.css, "</style>"] if self.css else []
        return "\n".join(["<html>", link, *style, to_html(self.body), "</html>"])


def generate(split: str, n: int, seed: int = 0) -> list[dict[str, Json]]:
    """The first `n` rows of a split, the kinds taking turns."""
    if split not in SPLITS:
        raise UsageError(f"mini-web has the splits 'train' and 'test', not {split!r}.")
    streams = [pages(kind, split, seed) for kind in KINDS]
    drawn = (next(streams[index % len(streams)]) for index in range(n))
    return [{"problem_description": page.request, "ground_truth": page.html} for page in drawn]


def pages(kind: str, split: str, seed: int) -> Iterator[Page]:
    """An endless stream of pages of one kind, each with an arrangement and a request of its own."""
    seen: set[str] = set()
    for number in count():
        page = draw_page(kind, seed, number)
        arranged = page.arrangement
        # the arrangement alone decides about the split, so that no list can mix them
        if SPLITS[int(arranged, 16) % len(SPLITS)] == split and not {arranged, page.request} & seen:
            seen |= {arranged, page.request}
            yield page


def draw_page(kind: str, seed: int, number: int) -> Page:
    draw = Draw("mini-web", seed, kind, number)
    topic = draw.say(topics_for(kind))
    site = Site(draw, draw_look(draw), topic, draw.say(topic["names"]))
    body = site.body(kind)  # drawn first: what is drawn later depends on it
    return Page(body, site.look["css"], site.request(kind))


def topics_for(kind: str) -> list[dict[str, Any]]:
    suited = WORDS["only_for"].get(kind)
    return [topic for topic in WORDS["topics"] if suited is None or topic["about"] in suited]


class Draw:
    """Choices that depend on the seed and their order alone. All randomness of a page is here."""

    def __init__(self, *seed: Json) -> None:
        rng = Random(derive_seed(*seed))
        self.some, self.number, self._below = rng.sample, rng.randint, rng.randrange

    def pick(self, *options: T) -> T:
        return self.say(options)

    def say(self, options: Sequence[T]) -> T:
        return options[self._below(len(options))]

    def shuffled(self, options: Sequence[T]) -> list[T]:
        return self.some(options, len(options))


@dataclass(frozen=True, slots=True)
class Site:
    """One site. Templates draw as they are rendered, so the order of what they write decides what is drawn."""

    draw: Draw
    look: Look
    topic: dict[str, Any]
    brand: str

    def body(self, kind: str) -> Element:
        known = {
            **{name: getattr(self.draw, name) for name in ("pick", "say", "some", "shuffled", "number")},
            **{name: getattr(self, name) for name in ("facts", "mail", "look", "topic", "brand")},
            "words": WORDS,
        }
        for name in _MACROS:
            known |= vars(_templates().get_template(name).make_module(known))
        return parse(_templates().get_template(f"kinds/{kind}.html.j2").render(known))

    def facts(self, n: int) -> list[str]:
        """`n` different sentences: of this line of business, then ones that fit everywhere."""
        own = self.draw.some(self.topic["facts"], min(n, len(self.topic["facts"])))
        return own + self.draw.some(WORDS["thoughts"], n - len(own))

    def mail(self) -> str:
        name = "".join(letter for letter in self.brand.lower() if letter.isascii() and letter.isalpha())
        return f"hello@{name}.example"

    def request(self, kind: str) -> str:
        """The agent's task text, as vague as the ideas that ColBench's pages were made from."""

        def upper(text: str) -> str:
            return text[0].upper() + text[1:]

        draw, about = self.draw, self.topic["about"]
        purpose = draw.say(WORDS["purposes"][kind])
        article = "an" if about[0] in "aeiou" else "a"
        start = draw.pick(
            f"{upper(about)}: {purpose}",
            f"{upper(about)} site: {purpose}",
            f"{upper(purpose).removesuffix('.')}, made for {article} {about}.",
        )
        hints = [start, draw.say(WORDS["styles"]), *draw.some(WORDS["wishes"], 2)]
        if self.look["dark"]:
            hints.insert(2, "Dark tones set the mood.")
        elif draw.pick(True, False, False):
            hints.insert(2, f"{upper(self.look['color'])} is the colour of the house.")
        return " ".join(hints)


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        extensions=["jinja2.ext.do"],
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def draw_look(draw: Draw) -> Look:
    """A look; one in five is dark, one in three has headings of its own in plain CSS."""
    look = WORDS["look"]
    css: tuple[str, ...] = ()
    paint = draw.say((*look["hues"], *look["own_colors"]))
    if isinstance(paint, str):
        color, soft, accent = paint, f"bg-{paint}-50", f"text-{paint}-600"
        bar, button = f"bg-{paint}-700 text-white", f"bg-{paint}-600 text-white"
        if paint == "yellow":
            bar = button = "bg-yellow-400 text-gray-900"
    else:
        color, deep, strong, pale = paint
        bar, button, soft, accent = "brand", "brand-button", "brand-pale", "brand-text"
        css = (
            f".brand {{ background-color: {deep}; color: #ffffff; }}",
            f".brand-button {{ background-color: {strong}; color: #ffffff; }}",
            f".brand-text {{ color: {strong}; }}",
            f".brand-pale {{ background-color: {pale}; }}",
        )
    dark = draw.pick(True, False, False, False, False)
    corner = draw.say(look["corners"])
    edge = draw.pick("shadow", "border") if dark else draw.pick("shadow", "border", "shadow-lg")
    letters = draw.say(look["letters"])
    heading = draw.pick(*[()] * 6, *((rule,) for rule in look["heading_css"]))
    ground = draw.pick("bg-white", "bg-gray-50", "bg-gray-100", soft)
    line = "border-gray-700" if dark else "border-gray-200"
    return {
        "color": color,
        "bar": bar,
        "dark": dark,
        "soft": "bg-gray-800" if dark else soft,
        "accent": accent.replace("-600", "-300") if dark else accent,
        "button": f"{button} {draw.pick(corner or 'rounded', 'rounded-full', '')}",
        "page": f"bg-gray-900 text-gray-100 {letters}" if dark else f"{ground} text-gray-800 {letters}",
        "plain": "bg-gray-900" if dark else "bg-white",
        "muted": "text-gray-400" if dark else "text-gray-600",
        "card": f"{'bg-gray-800' if dark else 'bg-white'} {corner} {edge} {line if edge == 'border' else ''}",
        "line": line,
        "field": f"border {line} {'bg-gray-700' if dark else 'bg-white'} {corner}",
        "title": draw.say(look["titles"]),
        "corner": corner,
        "width": draw.say(look["widths"]),
        "css": (*css, *heading),
    }


def parse(source: str) -> Element:
    """The tree of a rendered template, which is XML: an unclosed tag raises a `ParseError`."""
    root = fromstring(source)  # rendered from this package's own files
    for element in root.iter():
        element.text, element.tail = (element.text or "").strip(), (element.tail or "").strip()
        if classes := " ".join(element.attrib.pop("class", "").split()):
            element.attrib = {"class": classes, **element.attrib}
    return root


def to_html(node: Element | str, depth: int = 0) -> str:
    """The element as lines, two blanks deeper for each level; what holds only text stays on one line."""
    indent = "  " * depth
    if isinstance(node, str):
        return indent + escape(node, quote=False)
    attributes = "".join(f' {name}="{escape(value)}"' for name, value in node.items())
    opening = f"{indent}<{node.tag}{attributes}>"
    if node.tag in _VOID:
        return opening
    if not len(node):
        return f"{opening}{to_html(node.text or '')}</{node.tag}>"
    inside = [node.text, *(part for child in node for part in (child, child.tail))]
    inner = "\n".join(to_html(part, depth + 1) for part in inside if part not in {None, ""})
    return f"{opening}\n{inner}\n{indent}</{node.tag}>"


def arrangement(element: Element) -> list[Json]:
    """The tree without its words: tags, classes, and the elements within."""
    return [element.tag, element.get("class", ""), *map(arrangement, element)]

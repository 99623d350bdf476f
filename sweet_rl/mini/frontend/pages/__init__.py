"""Mini-web: pages for Frontend Design that need no download, generated from a seed.

Rows have exactly the fields of ColBench's frontend tasks: a vague description, which the agent is
shown, and the source of a page, which it is not. Any number of pages can be drawn; the first k of a longer
list are the shorter list. A page is an arrangement (its elements and their classes) and a wording; two pages
of one list never have the same arrangement, and the splits share none, whatever the seeds.

Published behaviour: docs/published/sweet_rl.md#files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from xml.etree.ElementTree import Element

from sweet_rl.errors import UsageError
from sweet_rl.mini.frontend.pages.describe import description
from sweet_rl.mini.frontend.pages.draw import Draw
from sweet_rl.mini.frontend.pages.look import draw_look
from sweet_rl.mini.frontend.pages.markup import arrangement, to_html
from sweet_rl.mini.frontend.pages.site import Site
from sweet_rl.mini.frontend.pages.words import topics_for, words
from sweet_rl.types import Json, digest

SPLITS = ("train", "test")

TAILWIND = "https://cdn.jsdelivr.net/npm/tailwindcss@2.2.19/dist/tailwind.min.css"
"""The style sheet that every published page refers to."""

KINDS = tuple(words()["purposes"])
"""Every kind of page in the order in which they take turns; each is a template of this name."""


@dataclass(frozen=True, slots=True)
class Page:
    """One drawn page, its body still a tree. `request` is what the agent is given."""

    body: Element
    css: tuple[str, ...]
    request: str

    @property
    def arrangement(self) -> str:
        """A digest of all that is not wording; it decides the split."""
        return digest([*self.css, arrangement(self.body)])

    @property
    def html(self) -> str:
        """The page in the form of the published ones."""
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
        if split_of(arranged) == split and not {arranged, page.request} & seen:
            seen |= {arranged, page.request}
            yield page


def draw_page(kind: str, seed: int, number: int) -> Page:
    """One page of a kind, whatever its split."""
    draw = Draw("mini-web", seed, kind, number)
    topic = draw.say(topics_for(kind))
    site = Site(draw, draw_look(draw), topic, draw.say(topic["names"]))
    body = site.body(kind)  # drawn first: what is drawn later depends on it
    return Page(body, site.look["css"], description(site, kind))


def split_of(arranged: str) -> str:
    """Which split an arrangement belongs to: decided by it alone, so that no list can mix them."""
    return SPLITS[int(arranged, 16) % len(SPLITS)]

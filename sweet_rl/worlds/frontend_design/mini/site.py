"""Whose page it is, and the small pieces that every part of a page is made of.

Published behaviour: docs/published/sweet_rl.md#frontend-design.
"""

from __future__ import annotations

from dataclasses import dataclass

from sweet_rl.worlds.frontend_design.mini.draw import Draw
from sweet_rl.worlds.frontend_design.mini.look import Look
from sweet_rl.worlds.frontend_design.mini.markup import Element, Node, el
from sweet_rl.worlds.frontend_design.mini.words import Topic, words


@dataclass(frozen=True, slots=True)
class Site:
    """One site: its dice, its look, what it is about and how it is called."""

    draw: Draw
    look: Look
    topic: Topic
    brand: str

    def price(self) -> str:
        """What one of its wares may cost."""
        return f"${self.draw.number(*self.topic.prices)}"

    def person(self) -> str:
        """A person's first and last name."""
        return f"{self.draw.say(words().first_names)} {self.draw.say(words().last_names)}"

    def date(self) -> str:
        """A day of a year without the year."""
        return f"{self.draw.say(words().months)} {self.draw.number(1, 28)}"

    def facts(self, n: int) -> list[str]:
        """`n` different sentences: of this line of business, then ones that fit everywhere."""
        own = self.draw.some(self.topic.facts, min(n, len(self.topic.facts)))
        return own + self.draw.some(words().thoughts, n - len(own))

    def mail(self) -> str:
        """Its address for letters of the electronic kind."""
        name = "".join(letter for letter in self.brand.lower() if letter.isascii() and letter.isalpha())
        return f"hello@{name}.example"

    def phone(self) -> str:
        """A telephone number that is not in use."""
        return f"555 01{self.draw.number(10, 99)}"

    def street(self) -> str:
        """A street address: a number and a street's name."""
        return f"{self.draw.number(1, 98)} {self.draw.say(words().streets)}"


def picture(width: int, height: int, classes: str, about: str) -> Element:
    """A picture in the published shape of address."""
    return el("img", classes, src=f"https://picsum.photos/id/48/{width}/{height}", alt=about)


def backdrop(width: int, height: int) -> str:
    """The style that puts a picture behind an element."""
    return f"background-image: url('https://picsum.photos/id/48/{width}/{height}')"


def button(site: Site, text: str, extra: str = "") -> Element:
    """A link that looks like a button."""
    return el("a", f"inline-block px-5 py-2 font-semibold {site.look.button} {extra}", text, href="#")


def title(site: Site, text: str, extra: str = "mb-6") -> Element:
    """The heading of a section."""
    return el("h2", f"{site.look.title} {extra}", text)


def section(site: Site, *inner: Node, band: str = "", pad: str = "py-12", id_: str = "") -> Element:
    """A part of the page from edge to edge, its content as wide as the site's column."""
    attributes = {"id": id_} if id_ else {}
    classes = f"{band} {pad} px-6"
    return el("section", classes, el("div", site.look.width, *inner), **attributes)


def field(site: Site, label: str, kind: str = "text", hint: str = "") -> Element:
    """A labelled line of a form."""
    name = label.lower().replace(" ", "-")
    placeholder = {"placeholder": hint} if hint else {}
    return el(
        "div",
        "mb-4",
        el("label", "block text-sm font-semibold mb-1", label, for_=name),
        el("input", f"w-full px-3 py-2 {site.look.field}", type_=kind, id_=name, **placeholder),
    )

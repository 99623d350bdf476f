"""One site: its topic, and how its templates are rendered.

Templates draw as they are rendered, so the order of what they write decides what is drawn. Every text that
they insert is escaped; what macros and blocks have rendered is not escaped again.

Published behaviour: docs/published/sweet_rl.md#frontend-design.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any
from xml.etree.ElementTree import Element

from jinja2 import Environment, PackageLoader, StrictUndefined

from sweet_rl.mini.frontend.pages.draw import Draw
from sweet_rl.mini.frontend.pages.look import Look
from sweet_rl.mini.frontend.pages.markup import parse
from sweet_rl.mini.frontend.pages.words import words

_MACROS = ("site.html.j2", "blocks.html.j2", "frame.html.j2")
"""Known to each other in this order, and to every kind of page."""


@dataclass(frozen=True, slots=True)
class Site:
    """One site: its dice, its look, what it is about and how it is called."""

    draw: Draw
    look: Look
    topic: dict[str, Any]
    brand: str

    def body(self, kind: str) -> Element:
        """A page of a kind, from <body> on."""
        known = {
            **{name: getattr(self.draw, name) for name in ("pick", "say", "some", "shuffled", "number")},
            **{name: getattr(self, name) for name in ("facts", "mail", "look", "topic", "brand")},
            "words": words(),
        }
        for name in _MACROS:
            known |= vars(_templates().get_template(name).make_module(known))
        return parse(_templates().get_template(f"kinds/{kind}.html.j2").render(known))

    def facts(self, n: int) -> list[str]:
        """`n` different sentences: of this line of business, then ones that fit everywhere."""
        own = self.draw.some(self.topic["facts"], min(n, len(self.topic["facts"])))
        return own + self.draw.some(words()["thoughts"], n - len(own))

    def mail(self) -> str:
        """Its address for letters of the electronic kind."""
        name = "".join(letter for letter in self.brand.lower() if letter.isascii() and letter.isalpha())
        return f"hello@{name}.example"


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

"""HTML and SVG as values: every text is escaped where an element is made, so none is forgotten."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from typing import TypeAlias

_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
"""Not allowed in HTML, or not in UTF-8: control characters and lone surrogates."""


class Markup(str):
    """Text that is markup already. Only `tag` and `join` make it."""

    __slots__ = ()


Child: TypeAlias = "str | Markup | Iterable[Child] | None"


def tag(name: str, /, *children: Child, **attributes: str | float | None) -> Markup:
    """An element.

    Args:
        name: of the element.
        children: texts (escaped), elements, None (left out), or iterables of these.
        attributes: by name; a trailing underscore is dropped and others become hyphens
            (`class_`, `data_tip`). None leaves one out. Numbers are written with at most two decimals.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_escape(_attribute(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    end = "" if name == "img" else f"</{name}>"
    return Markup(f"<{name}{written}>{join(children)}{end}")


def join(children: Iterable[Child]) -> Markup:
    """Children one after the other, texts escaped."""
    return Markup("".join(map(_render, children)))


def _render(child: Child) -> str:
    if child is None or isinstance(child, Markup):
        return child or ""
    return _escape(child) if isinstance(child, str) else join(child)


def _attribute(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")


def _escape(text: str) -> str:
    return html.escape(_UNPRINTABLE.sub("\ufffd", text))

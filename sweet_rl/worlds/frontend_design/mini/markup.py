"""HTML as a tree, so that what is written is always balanced and escaped."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import TypeAlias, Union

from sweet_rl.types import Json

_VOID = frozenset({"br", "hr", "img", "input", "link"})

Node: TypeAlias = Union["Element", str]
"""An element, or text that is still to be escaped."""


@dataclass(frozen=True, slots=True)
class Element:
    """One element; `attributes` in the order in which they are written, the class first."""

    tag: str
    attributes: tuple[tuple[str, str], ...]
    children: tuple[Node, ...]


def el(tag: str, classes: str = "", *children: Node, **attributes: str) -> Element:
    """An element; blanks too many in `classes` are dropped.

    An attribute that is a Python word ends in an underscore: `for_="email"`.
    """
    classes = " ".join(classes.split())
    first = (("class", classes),) if classes else ()
    rest = tuple((name.removesuffix("_"), value) for name, value in attributes.items())
    return Element(tag, first + rest, children)


def to_html(node: Node, depth: int = 0) -> str:
    """The element as lines, two blanks deeper for each level; what holds only text stays on one line."""
    indent = "  " * depth
    if isinstance(node, str):
        return indent + html.escape(node, quote=False)
    attributes = "".join(f' {name}="{html.escape(value)}"' for name, value in node.attributes)
    opening = f"{indent}<{node.tag}{attributes}>"
    if node.tag in _VOID:
        return opening
    if all(isinstance(child, str) for child in node.children):
        return f"{opening}{''.join(map(to_html, node.children))}</{node.tag}>"
    inner = "\n".join(to_html(child, depth + 1) for child in node.children)
    return f"{opening}\n{inner}\n{indent}</{node.tag}>"


def arrangement(element: Element) -> list[Json]:
    """The tree without its words: tags, classes, and the elements within."""
    inside = [arrangement(child) for child in element.children if isinstance(child, Element)]
    return [element.tag, dict(element.attributes).get("class", ""), *inside]

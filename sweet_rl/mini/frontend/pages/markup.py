"""Pages as trees of elements: their source, and their structure without words."""

from __future__ import annotations

from html import escape
from xml.etree.ElementTree import Element, fromstring

from sweet_rl.types import Json

_VOID = frozenset({"br", "hr", "img", "input", "link"})


def parse(source: str) -> Element:
    """The tree of a rendered template, which is XML: an unclosed tag raises a `ParseError`.

    Blanks around a text and too many in a class are dropped, and so is a class that is empty.
    """
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

"""Tailwind CSS 2.2.19, whole or only the rules that a page can use.

The file has 2.9 MB, and a browser spends most of a page's time on reading it. A rule whose selectors all ask
for classes that occur nowhere in a page cannot match anything there, so that page is given the others: a
hundredth of the file, and the same picture.
"""

from __future__ import annotations

import functools
import html
import itertools
import lzma
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_CLASS = re.compile(r"\.((?:\\.|[\w-])+)")
_WORDS = re.compile(r"[^\s\"'<>=`]+")


@functools.cache
def whole() -> bytes:
    """The file as its package has it."""
    return lzma.decompress((Path(__file__).parent / "tailwind-2.2.19.min.css.xz").read_bytes())


def for_page(page: str) -> bytes:
    """The rules that can match something in a page whose scripts do not run."""
    text = page.lower()  # pages without a doctype match classes in any case
    if "srcdoc" in text or "data:text" in text or "data:image/svg" in text:
        return whole()  # pages within pages, in writings of their own
    words = set(_WORDS.findall(text)) | set(_WORDS.findall(html.unescape(text)))
    always, by_class = _index()
    wanted = {rule.place: rule for rule in always}
    for word in words & by_class.keys():
        for rule in by_class[word]:
            if any(classes <= words for classes in rule.alternatives):
                wanted[rule.place] = rule
    return joined([wanted[place] for place in sorted(wanted)])


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: its enclosing `@media`, outermost first, and the classes of each selector."""

    place: int
    text: str
    conditions: tuple[str, ...]
    alternatives: tuple[frozenset[str], ...]


@functools.cache
def _index() -> tuple[list[Rule], dict[str, list[Rule]]]:
    """Rules that need no class, and the others under each class that they mention."""
    always: list[Rule] = []
    by_class: dict[str, list[Rule]] = {}
    for rule in rules(whole().decode()):
        if rule.text.startswith("@") or not all(rule.alternatives):
            always.append(rule)
            continue
        for name in frozenset[str]().union(*rule.alternatives):
            by_class.setdefault(name, []).append(rule)
    return always, by_class


def _classes(selector: str) -> frozenset[str]:
    selector = re.sub(r":not\([^)]*\)", "", selector)
    return frozenset(re.sub(r"\\(.)", r"\1", name).lower() for name in _CLASS.findall(selector))


def rules(css: str) -> list[Rule]:
    """Every rule of a minified file, in order."""
    found: list[Rule] = []
    conditions: list[str] = []
    selectors, depth, start, body = "", 0, 0, 0
    css = re.sub(r"/\*.*?(?:\*/|\Z)", "", css, flags=re.DOTALL)
    for brace in re.finditer(r"[{}]", css):
        piece = css[start : brace.start()]
        start = brace.end()
        if brace.group() == "}":
            if depth == 0:
                conditions.pop()
            elif depth == 1:
                text = f"{selectors}{{{css[body : brace.start()]}}}"
                alternatives = tuple(map(_classes, selectors.split(",")))
                found.append(Rule(len(found), text, tuple(conditions), alternatives))
            depth = max(depth - 1, 0)
        elif depth == 0 and piece.startswith("@media"):
            conditions.append(piece)
        else:
            if depth == 0:
                selectors, body = piece, start
            depth += 1
    return found


def joined(wanted: Iterable[Rule]) -> bytes:
    """The rules as a file again."""
    parts: list[str] = []
    for conditions, group in itertools.groupby(wanted, key=lambda rule: rule.conditions):
        parts += [f"{condition}{{" for condition in conditions]
        parts += [rule.text for rule in group]
        parts.append("}" * len(conditions))
    return "".join(parts).encode()

"""A decent page from a description alone: title, navigation, a picture, sections and a footer."""

from __future__ import annotations

import re
from typing import Final

from sweet_rl.mini.frontend.agents.canvas import Block, Canvas, Words

_MARGIN: Final = 48
_COLORS: Final = {
    "red": "#dc2626",
    "orange": "#ea580c",
    "yellow": "#d97706",
    "green": "#059669",
    "teal": "#0d9488",
    "blue": "#2563eb",
    "purple": "#7c3aed",
    "pink": "#db2777",
    "brown": "#78350f",
    "black": "#111827",
    "dark": "#111827",
    "grey": "#4b5563",
    "gray": "#4b5563",
}
_LAYOUT: Final = re.compile(
    r"\b(?:design|layouts?|bar|navigation|menu|footer|header|background|images?|pictures?|photos?|columns?|"
    r"sidebar|grid|colou?rs?|palette|scheme|site|website|page|homepage|sections?|buttons?|screen|logo|"
    r"slideshow|carousel|typography|fonts?|side|left|right|top|bottom|below|central|centered|minimalistic)\b",
    re.IGNORECASE,
)
_INTRODUCTION: Final = re.compile(
    r"^(?:(?:and|a|an|the|with|for|of|or|such as|including|featuring|showcasing|showing|displaying|display|"
    r"links? to|sections? for|areas? for|options? for|information about|featured|its|their|our|each|"
    r"to|on|in|at|by|is|are)\s+)+",
    re.IGNORECASE,
)


def sketch(description: str) -> Canvas:
    """A page that the description's first words title and whose topics get a section each."""
    title, topics = _title(description), _topics(description)
    color = next(
        (code for name, code in _COLORS.items() if re.search(rf"\b{name}\b", description, re.IGNORECASE)),
        "#2563eb",
    )
    canvas = Canvas(background="#f3f4f6")
    bottom = _head(canvas, title, topics, color)
    picture = re.search(r"image|picture|photo", description, re.IGNORECASE)
    bottom = _hero(canvas, title, bottom, picture=bool(picture))
    bottom = _sections(canvas, topics, bottom)
    _foot(canvas, title, bottom, color)
    return canvas


def _title(description: str) -> str:
    name = re.split(r"[:.]", description.strip(), maxsplit=1)[0].strip()
    return " ".join(name.split()[:8]) or "Welcome"


def _topics(description: str) -> list[str]:
    """Phrases that name something the page is about, at most six."""
    about = description.partition(":")[2] or description
    topics: list[str] = []
    for phrase in re.split(r"[,.;:]|\band\b|\bwith\b|\bfor\b|\bof\b", about):
        words = _INTRODUCTION.sub("", phrase.strip())
        if words and len(words.split()) <= 4 and not _LAYOUT.search(words):
            topic = words[:1].upper() + words[1:]
            if topic not in topics:
                topics.append(topic)
    return topics[:6] or ["About us", "Services", "Contact"]


def _line(canvas: Canvas, text: str, x: float, y: float, size: float, color: str, *, bold: bool) -> Words:
    """One line; letters are about half as wide as high."""
    words = Words(text, x, y, round(0.55 * size * len(text)), size, bold, color, 1, 1.5 * size)
    canvas.words.append(words)
    return words


def _head(canvas: Canvas, title: str, topics: list[str], color: str) -> float:
    canvas.blocks.append(Block("area", 0, 0, canvas.width, 72, color))
    _line(canvas, title, _MARGIN, 18, 24, "#ffffff", bold=True)
    x = canvas.width - _MARGIN - 0.0
    for entry in ["Contact", *reversed(topics[:3]), "Home"]:
        x -= 9 * len(entry)
        _line(canvas, entry, round(x), 24, 16, "#ffffff", bold=False)
        x -= 24
    return 72


def _hero(canvas: Canvas, title: str, top: float, *, picture: bool) -> float:
    if picture:
        canvas.blocks.append(Block("picture", 0, top, canvas.width, 320))
        top += 320
    welcome = f"Welcome to {title}"
    width = round(0.55 * 36 * len(welcome))
    x = max(_MARGIN, (canvas.width - width) / 2)
    canvas.words.append(Words(welcome, x, top + 40, width, 36, True, "#111827", 1, 54))
    return top + 130


def _sections(canvas: Canvas, topics: list[str], top: float) -> float:
    """Cards, three in a row."""
    width = (canvas.width - 4 * _MARGIN) / 3
    for number, topic in enumerate(topics):
        x = _MARGIN + (number % 3) * (width + _MARGIN)
        y = top + (number // 3) * 190
        canvas.blocks.append(Block("area", round(x), y, round(width), 160, "#ffffff"))
        _line(canvas, topic, round(x) + 24, y + 24, 20, "#111827", bold=True)
        _line(canvas, f"Learn more about {topic.lower()}.", round(x) + 24, y + 72, 16, "#4b5563", bold=False)
    return top + -(-len(topics) // 3) * 190 + 20


def _foot(canvas: Canvas, title: str, top: float, color: str) -> None:
    top = max(top, 768 - 72)
    canvas.blocks.append(Block("area", 0, top, canvas.width, 72, color))
    _line(canvas, f"© {title}. All rights reserved.", _MARGIN, top + 24, 16, "#ffffff", bold=False)
    canvas.height = top + 72

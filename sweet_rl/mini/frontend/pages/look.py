"""The style of a page: colours, fonts, corners. Each part of a page takes its classes from here."""

from __future__ import annotations

from typing import Any

from sweet_rl.mini.frontend.pages.draw import Draw

Look = dict[str, Any]
"""Classes by purpose, the colour's name, whether it is `dark`, and the plain `css` that some classes need.

`bar` is a band in the main colour with its text, `soft` a pale band, `accent` text in the main colour.
"""


def _of_tailwind(hue: str) -> Look:
    text, bar, button = "text-white", 700, 600
    if hue == "yellow":
        text, bar, button = "text-gray-900", 400, 400
    return {
        "color": hue,
        "bar": f"bg-{hue}-{bar} {text}",
        "soft": f"bg-{hue}-50",
        "accent": f"text-{hue}-600",
        "button": f"bg-{hue}-{button} {text}",
        "css": (),
    }


def _of_css(color: str, deep: str, strong: str, pale: str) -> Look:
    css = (
        f".brand {{ background-color: {deep}; color: #ffffff; }}",
        f".brand-button {{ background-color: {strong}; color: #ffffff; }}",
        f".brand-text {{ color: {strong}; }}",
        f".brand-pale {{ background-color: {pale}; }}",
    )
    names = {"bar": "brand", "soft": "brand-pale", "accent": "brand-text", "button": "brand-button"}
    return {"color": color, "css": css, **names}


_PAINTS = (
    *map(_of_tailwind, ("blue", "indigo", "purple", "pink", "red", "yellow", "green", "gray")),
    _of_css("teal", "#115e59", "#0d9488", "#effcf9"),
    _of_css("orange", "#9a3412", "#ea580c", "#fff6ec"),
    _of_css("brown", "#4e342e", "#8d5b3f", "#f8f1ea"),
    _of_css("navy", "#1b2a49", "#3a5a98", "#eef2f9"),
    _of_css("olive", "#454d1f", "#757f3f", "#f5f6ea"),
    _of_css("burgundy", "#64162f", "#a3304f", "#fbf0f3"),
    _of_css("gold", "#2a2723", "#b08a3e", "#faf6ec"),
    _of_css("turquoise", "#0b7285", "#1098ad", "#e9f9fb"),
)

_TITLES = (
    "text-2xl font-bold",
    "text-3xl font-bold",
    "text-3xl font-light",
    "text-2xl font-semibold uppercase tracking-wide",
    "text-4xl font-extrabold tracking-tight",
)
_WIDTHS = ("max-w-4xl mx-auto", "max-w-5xl mx-auto", "max-w-6xl mx-auto", "max-w-7xl mx-auto")
_CORNERS = ("", "rounded", "rounded-lg", "rounded-2xl")
_LETTERS = ("font-sans", "font-sans", "font-sans", "font-serif", "font-serif", "font-mono")
_HEADING_CSS = (
    "h1, h2 { font-family: Georgia, 'Times New Roman', serif; }",
    "h2 { border-bottom: 3px solid currentColor; padding-bottom: 6px; }",
    "h1, h2, h3 { letter-spacing: 0.04em; }",
)


def draw_look(draw: Draw) -> Look:
    """A look; one in five is dark, one in three has headings of its own in plain CSS."""
    paint = draw.say(_PAINTS)
    dark = draw.pick(True, False, False, False, False)
    corner = draw.say(_CORNERS)
    edge = draw.pick("shadow", "border") if dark else draw.pick("shadow", "border", "shadow-lg")
    letters = draw.say(_LETTERS)
    heading = draw.pick(*[()] * 6, *((rule,) for rule in _HEADING_CSS))
    ground = draw.pick("bg-white", "bg-gray-50", "bg-gray-100", paint["soft"])
    line = "border-gray-700" if dark else "border-gray-200"
    accent = paint["accent"].replace("-600", "-300") if dark else paint["accent"]
    return {
        **paint,
        "dark": dark,
        "soft": "bg-gray-800" if dark else paint["soft"],
        "accent": accent,
        "button": f"{paint['button']} {draw.pick(corner or 'rounded', 'rounded-full', '')}",
        "page": f"bg-gray-900 text-gray-100 {letters}" if dark else f"{ground} text-gray-800 {letters}",
        "plain": "bg-gray-900" if dark else "bg-white",
        "muted": "text-gray-400" if dark else "text-gray-600",
        "card": f"{'bg-gray-800' if dark else 'bg-white'} {corner} {edge} {line if edge == 'border' else ''}",
        "line": line,
        "field": f"border {line} {'bg-gray-700' if dark else 'bg-white'} {corner}",
        "title": draw.say(_TITLES),
        "corner": corner,
        "width": draw.say(_WIDTHS),
        "css": (*paint["css"], *heading),
    }

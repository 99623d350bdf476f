"""Sections that many kinds of page share: cards, stories, figures, voices, people, tables, forms."""

from __future__ import annotations

from collections.abc import Sequence

from sweet_rl.worlds.frontend_design.mini.markup import Element, el
from sweet_rl.worlds.frontend_design.mini.site import Site, backdrop, button, field, picture, section, title
from sweet_rl.worlds.frontend_design.mini.words import words


def cards(
    site: Site, heading: str, names: Sequence[str], *, priced: bool = False, shots: bool = True
) -> Element:
    """A card for each name, in two to four columns."""
    look, columns = site.look, site.draw.pick(2, 3, 3, 4)
    names = names[: columns * (2 if len(names) >= 2 * columns else 1)]
    align = site.draw.pick("", "text-center")
    mark = site.draw.pick("line", "letter")

    def card(name: str) -> Element:
        head = el("h3", "text-lg font-semibold mb-1", name)
        text = el("p", f"text-sm {look.muted}", site.draw.say(words().remarks))
        price = [el("p", f"font-bold mt-2 {look.accent}", site.price())] if priced else []
        if shots:
            shot = picture(400, 300, "w-full h-40 object-cover", name)
            return el(
                "div",
                f"{look.card} overflow-hidden {align}",
                shot,
                el("div", "p-4", head, text, *price),
            )
        if mark == "letter":
            size = "w-12 h-12 flex items-center justify-center rounded-full text-xl font-bold mb-3"
            sign = el("div", f"{look.bar} {size} {'mx-auto' if align else ''}", name[0])
        else:
            sign = el("div", f"{look.bar} h-1 w-16 mb-4 {'mx-auto' if align else ''}")
        return el("div", f"{look.card} p-6 {align}", sign, head, text, *price)

    grid = el("div", f"grid grid-cols-{columns} gap-6", *map(card, names))
    return section(site, title(site, heading, f"mb-6 {align}"), grid, id_="offer")


def stories(site: Site, heading: str, names: Sequence[str]) -> Element:
    """Rows of text beside a picture; the sides may change from row to row."""
    look, swap = site.look, site.draw.pick(True, False)
    rows = []
    for place, (name, fact) in enumerate(zip(names, site.facts(len(names)), strict=True)):
        text = el(
            "div",
            "flex-1",
            el("h3", f"text-2xl font-semibold mb-2 {look.accent}", name),
            el("p", look.muted, fact),
        )
        shot = picture(600, 400, f"w-2/5 h-48 object-cover {look.corner}", name)
        pair = (text, shot) if swap and place % 2 else (shot, text)
        rows.append(el("div", "flex items-center space-x-8 mb-8", *pair))
    return section(site, title(site, heading), *rows, band=site.draw.pick("", look.plain), id_="story")


def figures(site: Site) -> Element:
    """A band of large numbers."""
    look = site.look
    count = site.draw.pick(3, 4)
    most = {"years": 90, "people": 80, "partners": 60, "towns": 40, "ideas": 500, "guests a week": 900}
    names = site.draw.some(tuple(most), count)
    blocks = [
        el(
            "div",
            "",
            el("p", "text-4xl font-bold", str(site.draw.number(3, most[name]))),
            el("p", "text-sm uppercase tracking-wide", name),
        )
        for name in names
    ]
    band = site.draw.pick(look.bar, look.soft)
    return section(
        site, el("div", f"grid grid-cols-{count} gap-6 text-center", *blocks), band=band, pad="py-10"
    )


def voices(site: Site) -> Element:
    """A block of one to three quotes by clients."""
    look, count = site.look, site.draw.pick(1, 2, 3)
    if count == 1:
        quote = el(
            "blockquote",
            "text-center",
            el("p", "text-2xl italic mb-4", f"“{site.draw.say(words().praise)}”"),
            el("p", f"font-semibold {look.accent}", site.person()),
        )
        return section(site, quote, band=look.soft)
    quotes = [
        el(
            "div",
            f"{look.card} p-6",
            el("p", "italic mb-3", praise),
            el(
                "p",
                f"text-sm font-semibold {look.accent}",
                f"{site.person()}, {site.draw.say(words().towns)}",
            ),
        )
        for praise in site.draw.some(words().praise, count)
    ]
    heading = site.draw.say(("What people say", "Kind words", "From our guest book"))
    return section(
        site, title(site, heading), el("div", f"grid grid-cols-{count} gap-6", *quotes), band=look.soft
    )


def call(site: Site) -> Element:
    """A closing block that invites to get in touch."""
    look = site.look
    text = site.draw.say(
        ("Ready when you are", "Come and see for yourself", "Let us begin", "Talk to us today")
    )
    if site.draw.pick(True, False):
        row = el(
            "div", "flex items-center justify-between", title(site, text, ""), button(site, "Get in touch")
        )
        return section(site, row, band=look.soft, pad="py-8")
    style = "h-56 bg-cover bg-center flex flex-col items-center justify-center text-white"
    return el(
        "section",
        style,
        el("h2", "text-3xl font-bold mb-4 bg-black bg-opacity-50 px-4 py-2", text),
        button(site, "Get in touch"),
        style=backdrop(1200, 400),
    )


def people(site: Site, heading: str = "The people") -> Element:
    """A block of portraits with names and roles."""
    look, count = site.look, site.draw.pick(3, 4)
    shape = site.draw.pick("rounded-full", look.corner or "rounded")
    faces = [
        el(
            "div",
            "text-center",
            picture(200, 200, f"w-28 h-28 object-cover mx-auto mb-3 {shape}", "Portrait"),
            el("p", "font-semibold", site.person()),
            el("p", f"text-sm {look.muted}", role),
        )
        for role in site.draw.some(words().roles, count)
    ]
    return section(
        site, title(site, heading), el("div", f"grid grid-cols-{count} gap-6", *faces), id_="people"
    )


def questions(site: Site, heading: str, count: int) -> Element:
    """Questions and their answers, in one column or two."""
    look = site.look
    pairs = site.draw.some(words().questions, count)
    entry = site.draw.pick(f"border-b {look.line} pb-4", f"{look.card} p-5", "")
    entries = [
        el(
            "div",
            entry,
            el("h3", "font-semibold mb-1", question),
            el("p", f"text-sm {look.muted}", answer),
        )
        for question, answer in pairs
    ]
    columns = site.draw.pick("space-y-4", "grid grid-cols-2 gap-6")
    return section(site, title(site, heading), el("div", columns, *entries), id_="questions")


def table(site: Site, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Element:
    """A table; its head coloured or plain, its rows striped or ruled."""
    look = site.look
    head = site.draw.pick(look.bar, look.soft, f"border-b-2 {look.line}")
    striped = site.draw.pick(True, False)
    cells = [el("th", "text-left px-4 py-3", name) for name in heads]
    lines = []
    for place, row in enumerate(rows):
        shade = look.soft if striped and place % 2 else ("" if striped else f"border-b {look.line}")
        lines.append(el("tr", shade, *(el("td", "px-4 py-3", cell) for cell in row)))
    return el(
        "table",
        f"w-full {look.plain} text-sm",
        el("thead", head, el("tr", "", *cells)),
        el("tbody", "", *lines),
    )


def form(site: Site, fields: Sequence[tuple[str, str]], action: str, *, message: bool = False) -> Element:
    """A form as a card."""
    look = site.look
    lines = [field(site, label, kind) for label, kind in fields]
    if message:
        label = el("label", "block text-sm font-semibold mb-1", "Message", for_="message")
        area = el("textarea", f"w-full px-3 py-2 {look.field}", id_="message", rows="5")
        lines.append(el("div", "mb-4", label, area))
    wide = site.draw.pick("w-full", "")
    submit = el("button", f"px-6 py-2 font-semibold {look.button} {wide}", action, type_="button")
    return el("form", f"{look.card} p-6", *lines, submit)


EXTRAS = (figures, voices, call, people)
"""Sections that fit on almost every page."""


def extras(site: Site, most: int) -> list[Element]:
    """Up to `most` sections that the page could also do without, in some order."""
    count = site.draw.pick(*range(most + 1))
    return [block(site) for block in site.draw.some(EXTRAS, count)]

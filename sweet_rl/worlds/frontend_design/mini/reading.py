"""Kinds of page that are read: a blog, a story, the front page of a newspaper."""

from __future__ import annotations

from sweet_rl.worlds.frontend_design.mini.blocks import (
    figures,
    stories,
)
from sweet_rl.worlds.frontend_design.mini.frame import framed, greeting
from sweet_rl.worlds.frontend_design.mini.markup import Element, el
from sweet_rl.worlds.frontend_design.mini.site import Site, picture, section, title
from sweet_rl.worlds.frontend_design.mini.words import words


def blog(site: Site) -> Element:
    """Entries with dates, and beside them who writes."""
    draw, look = site.draw, site.look
    titles = draw.some(site.topic.titles, draw.pick(3, 4))
    shots = draw.pick(True, True, False)

    def entry(name: str) -> Element:
        text = el(
            "div",
            "flex-1",
            el("p", f"text-xs uppercase {look.muted}", f"{site.date()} · {site.person()}"),
            el("h2", "text-xl font-bold my-1", name),
            el("p", look.muted, " ".join(draw.some(words().thoughts, 2))),
        )
        shot = [picture(300, 200, f"w-48 h-32 object-cover {look.corner}", name)] if shots else []
        return el("article", f"flex space-x-6 mb-8 {draw_entry}", *shot, text)

    draw_entry = draw.pick("", f"{look.card} p-5", f"border-b {look.line} pb-6")
    entries = el("div", "flex-1", *map(entry, titles))
    about = el(
        "aside",
        f"w-64 {look.card} p-6",
        picture(120, 120, "w-20 h-20 rounded-full mb-3", "The author"),
        el("h3", "font-bold mb-2", "About this blog"),
        el("p", f"text-sm {look.muted}", draw.say(site.topic.facts)),
    )
    pair = draw.pick([entries], [entries, about], [about, entries])
    heading = title(site, draw.say(("Notes", "Journal", "From the workshop")), "mb-8")
    main = section(site, heading, el("div", "flex items-start space-x-10", *pair))
    first = greeting(site) if draw.pick(True, False) else None
    return framed(site, ("Home", "Archive", "About"), [main], first)


def article(site: Site) -> Element:
    """One long text with a headline, a picture, and sometimes a margin."""
    draw, look = site.draw, site.look
    thoughts = draw.some(words().thoughts, 9)
    headline, *others = draw.some(site.topic.titles, 4)
    size = draw.pick("", "text-lg")
    quote = el("blockquote", f"border-l-4 pl-4 my-6 text-xl italic {look.accent}", draw.say(words().praise))
    paragraphs: list[Element] = [
        el("p", f"mb-4 leading-relaxed {size}", " ".join(thoughts[start : start + 3])) for start in (0, 3, 6)
    ]
    paragraphs.insert(draw.pick(1, 2, 3), quote)
    shot = picture(1200, 600, f"w-full h-72 object-cover mb-6 {look.corner}", "About this story")
    align = draw.pick("", "text-center")
    head = el(
        "header",
        f"mb-6 {align}",
        el("h1", "text-4xl font-bold mb-2", headline),
        el("p", look.muted, f"By {site.person()}, {site.date()}"),
    )
    top = draw.pick([head, shot], [shot, head], [head])
    text = el("article", "flex-1", *top, *paragraphs)
    margin = el(
        "aside",
        f"w-64 p-5 {look.soft}",
        el("h3", "font-bold mb-3", "Read on"),
        *(el("a", f"block mb-3 {look.accent}", name, href="#") for name in others),
    )
    columns = draw.pick([text], [text, margin], [margin, text])
    narrow = "max-w-2xl mx-auto" if len(columns) == 1 else ""
    main = section(site, el("div", f"flex items-start space-x-8 {narrow}", *columns))
    return framed(site, ("Latest", "Topics", "About us"), [main])


def news(site: Site) -> Element:
    """A front page: one large story, smaller ones around it."""
    draw, look = site.draw, site.look
    titles = draw.some(site.topic.titles, 4)
    lead = el(
        "article",
        draw.pick("flex-1", "w-2/3"),
        picture(900, 500, f"w-full h-72 object-cover mb-4 {look.corner}", titles[0]),
        el("h2", "text-3xl font-bold mb-2", titles[0]),
        el("p", look.muted, " ".join(draw.some(words().thoughts, 2))),
    )
    shots = draw.pick(True, False)
    short = [
        el(
            "article",
            f"border-b {look.line} pb-4 mb-4",
            *([picture(300, 160, "w-full h-24 object-cover mb-2", name)] if shots else []),
            el("p", f"text-xs font-bold uppercase {look.accent}", draw.say(site.topic.wares)),
            el("h3", "font-semibold", name),
        )
        for name in titles[1:]
    ]
    column = el("div", "w-1/3", *short)
    pair = [lead, column][:: draw.pick(1, -1)]
    content = [section(site, el("div", "flex items-start space-x-8", *pair), pad="py-8")]
    content += [figures(site)] if draw.pick(True, False) else []
    content += (
        [stories(site, "More stories", draw.some(site.topic.wares, 2))] if draw.pick(True, False) else []
    )
    return framed(site, ("Today", "Region", "Culture", "Opinion", "Search"), content)

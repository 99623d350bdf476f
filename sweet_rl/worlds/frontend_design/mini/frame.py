"""The frame of a page: navigation, opening, footer, and how they stand around the content."""

from __future__ import annotations

from collections.abc import Sequence

from sweet_rl.worlds.frontend_design.mini.markup import Element, Node, el
from sweet_rl.worlds.frontend_design.mini.site import Site, backdrop, button, picture
from sweet_rl.worlds.frontend_design.mini.words import words

Links = Sequence[str]


def framed(site: Site, links: Links, content: Sequence[Element], opening: Element | None = None) -> Element:
    """The body of an ordinary page: navigation, opening, content, footer."""
    header = site.draw.pick(_bar, _white, _centred, _two_rows, _middle, _beside)
    rest: list[Node] = [opening] if opening is not None else []
    main = el("main", "", *content)
    footer = _footer(site, links)
    if header is _beside:
        column = el("div", "flex-1", *rest, main, footer)
        return el("body", site.look.page, el("div", "flex min-h-screen", _beside(site, links), column))
    return el("body", site.look.page, header(site, links), *rest, main, footer)


def _links(links: Links, classes: str, each: str) -> Element:
    return el(
        "nav", classes, *(el("a", each, link, href=f"#{link.lower().replace(' ', '-')}") for link in links)
    )


def _brand(site: Site, classes: str) -> Element:
    return el("span", f"{site.draw.pick('text-xl', 'text-2xl')} font-bold {classes}", site.brand)


def _bar(site: Site, links: Links) -> Element:
    return el(
        "header",
        f"{site.look.bar} flex items-center justify-between px-8 {site.draw.pick('py-3', 'py-5')}",
        _brand(site, ""),
        _links(links, "flex space-x-6", "hover:underline"),
    )


def _white(site: Site, links: Links) -> Element:
    look = site.look
    return el(
        "header",
        f"{look.plain} shadow flex items-center justify-between px-8 py-4",
        _brand(site, look.accent),
        el(
            "div",
            "flex items-center space-x-6",
            _links(links[:4], "flex space-x-6", look.muted),
            button(site, site.draw.say(words().actions)),
        ),
    )


def _centred(site: Site, links: Links) -> Element:
    look = site.look
    band, text = site.draw.pick((look.bar, ""), (look.soft, look.accent))
    return el(
        "header",
        f"{band} text-center py-6",
        el("h1", f"text-3xl font-bold {text}", site.brand),
        el("p", "text-sm mt-1", site.draw.say(site.topic.slogans)),
        _links(links, "flex justify-center space-x-8 mt-4", "hover:underline"),
    )


def _two_rows(site: Site, links: Links) -> Element:
    look = site.look
    strip = el(
        "div",
        f"{look.bar} text-sm flex justify-between px-8 py-2",
        el("span", "", f"Call {site.phone()}"),
        el("span", "", site.mail()),
    )
    row = el(
        "div",
        f"{look.plain} border-b {look.line} flex items-center justify-between px-8 py-4",
        _brand(site, ""),
        _links(links, f"flex space-x-6 {look.muted}", ""),
    )
    return el("header", "", strip, row)


def _middle(site: Site, links: Links) -> Element:
    look = site.look
    half = (len(links) + 1) // 2
    return el(
        "header",
        f"{look.plain} border-b-4 {look.line} flex items-center justify-center space-x-10 py-5",
        _links(links[:half], "flex space-x-6", look.muted),
        _brand(site, look.accent),
        _links(links[half:], "flex space-x-6", look.muted),
    )


def _beside(site: Site, links: Links) -> Element:
    look = site.look
    band = site.draw.pick(look.bar, f"{look.plain} border-r {look.line}")
    return el(
        "aside",
        f"{band} w-56 flex-shrink-0 p-6",
        el("p", "text-2xl font-bold mb-8", site.brand),
        _links(links, "flex flex-col space-y-4", "hover:underline"),
    )


def opening(site: Site, headline: str, line: str, action: str) -> Element:
    """What the eye meets first: a picture with words on it, words beside a picture, or a band of colour."""
    kind = site.draw.pick(_over_picture, _over_picture, _beside_picture, _coloured, _tall_picture, _plain)
    return kind(site, headline, line, action)


def greeting(site: Site) -> Element:
    """An opening with words of this line of business."""
    draw, topic = site.draw, site.topic
    headline = draw.say((*topic.slogans, f"Welcome to {site.brand}"))
    return opening(site, headline, draw.say(topic.facts), draw.say(words().actions))


def _over_picture(site: Site, headline: str, line: str, action: str) -> Element:
    height = site.draw.pick("h-64", "h-80", "h-96")
    place = site.draw.pick("items-center justify-center text-center", "items-end", "items-center")
    words_ = el(
        "div",
        f"bg-black bg-opacity-50 text-white p-8 {site.draw.pick('m-8 max-w-xl', 'm-12 max-w-2xl')}",
        el("h1", "text-4xl font-bold mb-3", headline),
        el("p", "text-lg mb-5", line),
        button(site, action),
    )
    return el("section", f"{height} bg-cover bg-center flex {place}", words_, style=backdrop(1600, 900))


def _beside_picture(site: Site, headline: str, line: str, action: str) -> Element:
    look = site.look
    text = el(
        "div",
        "w-1/2 px-8",
        el("h1", "text-5xl font-bold leading-tight mb-4", headline),
        el("p", f"text-lg mb-6 {look.muted}", line),
        button(site, action),
    )
    shot = picture(800, 600, f"w-1/2 h-80 object-cover {look.corner}", headline)
    pair = site.draw.pick((text, shot), (shot, text))
    return el(
        "section", f"{look.soft} py-12 px-6", el("div", f"{look.width} flex items-center space-x-6", *pair)
    )


def _coloured(site: Site, headline: str, line: str, action: str) -> Element:
    look = site.look
    align = site.draw.pick("text-center", "text-left")
    plain = el(
        "a", f"inline-block bg-white text-gray-900 font-semibold px-6 py-3 {look.corner}", action, href="#"
    )
    return el(
        "section",
        f"{look.bar} {site.draw.pick('py-16', 'py-24')} px-6 {align}",
        el(
            "div",
            look.width,
            el("h1", "text-5xl font-extrabold mb-4", headline),
            el("p", "text-xl mb-8", line),
            plain,
        ),
    )


def _tall_picture(site: Site, headline: str, line: str, action: str) -> Element:
    look = site.look
    return el(
        "section",
        "",
        picture(1600, 600, f"w-full {site.draw.pick('h-64', 'h-80')} object-cover", headline),
        el(
            "div",
            f"{look.width} px-6 py-8 {site.draw.pick('text-center', '')}",
            el("h1", f"text-4xl font-bold mb-2 {look.accent}", headline),
            el("p", f"text-lg mb-4 {look.muted}", line),
            button(site, action),
        ),
    )


def _plain(site: Site, headline: str, line: str, action: str) -> Element:
    look = site.look
    return el(
        "section",
        "pt-16 pb-8 px-6",
        el(
            "div",
            f"{look.width} {site.draw.pick('text-center', '')}",
            el("h1", "text-6xl font-bold mb-4", headline),
            el("p", f"text-2xl mb-6 {look.muted}", line),
            button(site, action),
        ),
    )


def _footer(site: Site, links: Links) -> Element:
    return site.draw.pick(_one_line, _columns, _split, _with_letter)(site, links)


def _rights(site: Site) -> str:
    return f"© {site.draw.number(2019, 2024)} {site.brand}. All rights reserved."


def _one_line(site: Site, _: Links) -> Element:
    band = site.draw.pick(site.look.bar, "bg-gray-800 text-white", f"border-t {site.look.line}")
    return el("footer", f"{band} text-center p-6", el("p", "text-sm", _rights(site)))


def _columns(site: Site, links: Links) -> Element:
    band = site.draw.pick(site.look.bar, "bg-gray-800 text-gray-200", f"{site.look.soft} border-t")
    days = site.draw.say((("Monday to Friday", "9 am to 6 pm"), ("Tuesday to Sunday", "10 am to 7 pm")))
    about = ("About", [site.draw.say(site.topic.facts)])
    blocks = [about, ("Find us", [site.street(), site.draw.say(words().towns)]), ("Open", list(days))]
    if site.draw.pick(True, False):
        blocks.append(("More", list(links[:3])))
    columns = [
        el(
            "div",
            "",
            el("h3", "font-bold mb-2", head),
            *(el("p", "text-sm mb-1", line) for line in lines),
        )
        for head, lines in blocks
    ]
    return el(
        "footer",
        f"{band} px-6 py-10",
        el("div", f"{site.look.width} grid grid-cols-{len(columns)} gap-8", *columns),
    )


def _split(site: Site, links: Links) -> Element:
    band = site.draw.pick(site.look.bar, "bg-black text-gray-300", site.look.soft)
    return el(
        "footer",
        f"{band} flex justify-between items-center px-8 py-6 text-sm",
        el("p", "", _rights(site)),
        el("div", "flex space-x-4", *(el("a", "", link, href="#") for link in links[:3])),
    )


def _with_letter(site: Site, _: Links) -> Element:
    look = site.look
    band = site.draw.pick("bg-gray-800 text-white", look.bar)
    form = el(
        "form",
        "flex justify-center mt-4",
        el("input", "px-4 py-2 w-72 text-gray-800", type_="email", placeholder="Your email"),
        el("button", "px-5 py-2 bg-white text-gray-800 font-semibold border-l", "Subscribe", type_="button"),
    )
    return el(
        "footer",
        f"{band} text-center py-10",
        el("p", "text-xl font-semibold", "News from us, once a month"),
        form,
        el("p", "text-sm mt-6", _rights(site)),
    )

"""Kinds of page of which a body has navigation, an opening and sections below one another.

Those that are read are in `reading`, those with an arrangement of their own (a dashboard) in `screens`.
"""

from __future__ import annotations

from sweet_rl.worlds.frontend_design.mini.blocks import (
    call,
    cards,
    extras,
    form,
    people,
    questions,
    stories,
    table,
    voices,
)
from sweet_rl.worlds.frontend_design.mini.frame import framed, greeting, opening
from sweet_rl.worlds.frontend_design.mini.markup import Element, el
from sweet_rl.worlds.frontend_design.mini.site import Site, button, picture, section, title
from sweet_rl.worlds.frontend_design.mini.words import words


def _wares(site: Site) -> list[str]:
    return site.draw.some(site.topic.wares, len(site.topic.wares))


def landing(site: Site) -> Element:
    """A home page: what it is about, what there is, why one should come."""
    wares = _wares(site)
    shots = site.draw.pick(True, False)
    main = [cards(site, f"Our {site.topic.offer.lower()}", wares, shots=shots)]
    if site.draw.pick(True, False):
        main.append(stories(site, site.draw.say(("How we work", "What matters to us")), wares[-2:]))
        main = main[:: site.draw.pick(1, -1)]
    return framed(
        site, (site.topic.offer, "About", "News", "Contact"), [*main, *extras(site, 3)], greeting(site)
    )


def shop(site: Site) -> Element:
    """Wares with prices, and filters where there is room for them."""
    draw, look = site.draw, site.look
    goods = cards(
        site,
        draw.say(("Best sellers", "This week", f"All {site.topic.offer.lower()}")),
        _wares(site),
        priced=True,
    )
    links = ("New", site.topic.offer, "Sale", "Basket")
    if draw.pick(True, False):
        boxes = [
            el(
                "label",
                "block mb-2 text-sm",
                el("input", "mr-2", type_="checkbox"),
                el("span", "", name),
            )
            for name in draw.some(site.topic.wares, 5)
        ]
        aside = el("aside", f"w-56 p-6 border-r {look.line}", el("h3", "font-bold mb-4", "Filter by"), *boxes)
        goods = el("div", "flex", aside, el("div", "flex-1", goods))
    first = greeting(site) if draw.pick(True, False) else None
    return framed(site, links, [goods, *extras(site, 2)], first)


def product(site: Site) -> Element:
    """One thing for sale: its picture, its price, what is said about it."""
    draw, look = site.draw, site.look
    wares = _wares(site)
    shot = picture(800, 800, f"w-1/2 {draw.pick('h-96', 'h-80')} object-cover {look.corner}", wares[0])
    details = [
        el("p", f"text-sm uppercase tracking-wide mb-2 {look.muted}", site.topic.offer),
        el("h1", "text-4xl font-bold mb-3", wares[0]),
        el("p", f"text-2xl mb-4 {look.accent}", site.price()),
        el("p", f"mb-6 {look.muted}", " ".join(site.facts(2))),
        button(site, "Add to basket"),
    ]
    pair = [shot, el("div", "w-1/2", *details)]
    first = section(site, el("div", "flex items-center space-x-10", *pair[:: draw.pick(1, -1)]))
    facts = [
        ("Made in", draw.say(words().towns)),
        ("Delivery", "Two to four days"),
        ("Returns", "Within 30 days"),
    ]
    below = [
        section(site, title(site, "Details"), table(site, ("At a glance", ""), facts), id_="details"),
        cards(site, "You may also like", wares[1:], priced=True),
        voices(site),
    ]
    return framed(site, (site.topic.offer, "Service", "Basket"), [first, *draw.some(below, draw.pick(1, 2))])


def menu(site: Site) -> Element:
    """Groups of things with their prices, as a card of dishes has them."""
    draw, look = site.draw, site.look
    wares = _wares(site)
    groups = draw.some(
        ("To begin", "Favourites", "Of the season", "Something sweet", "To share", "For later"), 2
    )
    dotted = draw.pick("border-b border-dotted", "border-b", "")

    def line(name: str) -> Element:
        row = el(
            "div",
            f"flex justify-between {dotted} pb-1",
            el("span", "font-semibold", name),
            el("span", look.accent, site.price()),
        )
        return el("li", "mb-4", row, el("p", f"text-sm {look.muted}", draw.say(words().remarks)))

    lists = [
        el(
            "div",
            "",
            el("h3", f"text-xl font-bold mb-4 {look.accent}", group),
            el("ul", "", *map(line, names)),
        )
        for group, names in zip(groups, (wares[:4], wares[4:]), strict=True)
    ]
    arrangement = draw.pick(
        "grid grid-cols-2 gap-12", "space-y-8 max-w-2xl mx-auto", f"grid grid-cols-2 gap-12 p-10 {look.card}"
    )
    heading = title(
        site, draw.say(("Menu", "What we offer", "Our list")), draw.pick("mb-8", "mb-8 text-center")
    )
    hours = [(day, "closed" if place == 0 else "11 am to 10 pm") for place, day in enumerate(words().days)]
    content = [section(site, heading, el("div", arrangement, *lists), id_="menu")]
    if draw.pick(True, False):
        content.append(
            section(site, title(site, "Opening hours"), table(site, ("Day", "Open"), hours), band=look.soft)
        )
    return framed(site, ("Menu", "Hours", "Reservations"), [*content, *extras(site, 1)], greeting(site))


def portfolio(site: Site) -> Element:
    """A portfolio: a person, and what they have made."""
    draw, look = site.draw, site.look
    intro = section(
        site,
        el(
            "div",
            draw.pick("flex items-center space-x-10", "text-center"),
            picture(
                300,
                300,
                f"w-40 h-40 object-cover {draw.pick('rounded-full', look.corner)} mx-auto",
                "Portrait",
            ),
            el(
                "div",
                "flex-1",
                el("h1", "text-4xl font-bold mt-2", site.person()),
                el("p", f"text-xl mb-3 {look.accent}", draw.say(site.topic.slogans)),
                el("p", look.muted, " ".join(draw.some(words().thoughts, 2))),
            ),
        ),
        band=draw.pick("", look.soft),
    )
    works = gallery_grid(site, _wares(site))
    content = [
        intro,
        section(site, title(site, draw.say(("Selected work", "Recent pieces"))), works, id_="work"),
    ]
    return framed(site, ("Work", "About", "Contact"), [*content, *extras(site, 1)])


def gallery_grid(site: Site, names: list[str]) -> Element:
    """Pictures side by side, with or without their names."""
    columns = site.draw.pick(2, 3, 4)
    height = site.draw.pick("h-40", "h-56", "h-64")
    named = site.draw.pick(True, False)
    first_wide = "col-span-2" if site.draw.pick(True, False) else ""
    tiles = []
    for place, name in enumerate(names[: columns * 2 - bool(first_wide)]):
        wide = first_wide if place == 0 else ""
        shot = picture(600, 400, f"w-full {height} object-cover {site.look.corner}", name)
        label = [el("figcaption", f"text-sm mt-1 {site.look.muted}", name)] if named else []
        tiles.append(el("figure", wide, shot, *label))
    return el("div", f"grid grid-cols-{columns} gap-{site.draw.pick(2, 4, 6)}", *tiles)


def gallery(site: Site) -> Element:
    """A page to look at: pictures, few words."""
    heading = title(
        site,
        site.draw.say(("Gallery", "Pictures", "A look around")),
        site.draw.pick("mb-6", "mb-6 text-center"),
    )
    line = el("p", f"mb-8 {site.look.muted}", site.draw.say(site.topic.facts))
    main = section(site, heading, line, gallery_grid(site, _wares(site)), id_="pictures")
    first = greeting(site) if site.draw.pick(True, False) else None
    return framed(site, ("Pictures", "Rooms", "Visit"), [main, *extras(site, 1)], first)


def event(site: Site) -> Element:
    """A day with a programme, speakers and tickets."""
    draw, look = site.draw, site.look
    names = _wares(site)
    first = opening(
        site,
        f"{site.topic.offer} {draw.number(2024, 2029)}",
        f"{site.date()}, {draw.say(words().towns)}",
        "Get tickets",
    )
    hours = [f"{hour} am" for hour in (9, 10, 11)] + [f"{hour} pm" for hour in (1, 2, 4)]
    count = draw.pick(4, 5, 6)
    rows = [(hour, name, site.person()) for hour, name in zip(hours[:count], names, strict=False)]
    if draw.pick(True, False):
        programme = table(site, ("Time", "What", "Who"), rows)
    else:
        programme = el(
            "ol",
            f"border-l-4 {look.line} pl-6",
            *(
                el(
                    "li",
                    "mb-5",
                    el("p", f"text-sm font-bold {look.accent}", hour),
                    el("p", "text-lg", f"{what}, {who}"),
                )
                for hour, what, who in rows
            ),
        )
    main = [section(site, title(site, "Programme"), programme, id_="programme")]
    if draw.pick(True, False):
        main.insert(draw.pick(0, 1), people(site, "Who you will meet"))
    return framed(site, ("Programme", "Speakers", "Tickets"), [*main, call(site)], first)


def pricing(site: Site) -> Element:
    """Plans side by side, one of them recommended."""
    draw, look = site.draw, site.look
    count = draw.pick(2, 3, 3, 4)
    best = draw.pick(*range(count))

    def plan(place: int) -> Element:
        chosen = place == best
        marks = [el("li", "mb-2", f"✓ {ware}") for ware in draw.some(site.topic.wares, 3 + (place + 1) // 2)]
        price = el("p", "text-4xl font-bold my-3", f"${(place + 1) * draw.number(6, 30)}")
        note = "border-t-8 border-current" if chosen and light else (look.bar if chosen else "")
        parts = (
            el("h3", "text-lg font-semibold", words().plans[place]),
            price,
            el("ul", "text-sm mb-6", *marks),
        )
        paint = "bg-white text-gray-900" if chosen and not light else look.button
        choose = el(
            "a",
            f"block text-center font-semibold py-2 {paint}",
            "Choose",
            href="#",
        )
        base = look.card if not chosen or light else f"{look.corner} shadow-xl"
        return el("div", f"{base} p-6 {note}", *parts, choose)

    light = draw.pick(True, False)
    heading = title(
        site,
        draw.say(("Simple prices", "Choose a plan", "What it costs")),
        draw.pick("mb-8", "mb-8 text-center"),
    )
    plans = section(
        site,
        heading,
        el(
            "div",
            f"grid grid-cols-{count} gap-6 {draw.pick('items-center', 'items-start', '')}",
            *map(plan, range(count)),
        ),
    )
    content = [plans]
    if draw.pick(True, False):
        content.append(questions(site, "Questions", draw.pick(2, 4)))
    first = greeting(site) if draw.pick(True, False) else None
    return framed(site, ("Prices", "Features", "Sign in"), [*content, *extras(site, 1)], first)


def contact(site: Site) -> Element:
    """A contact page: a form, an address, hours."""
    draw, look = site.draw, site.look
    fields = [("Name", "text"), ("Email", "email"), ("Telephone", "tel")][: draw.pick(2, 3)]
    ours = form(site, fields, draw.say(("Send", "Send message", "Write to us")), message=True)
    where = el(
        "div",
        "flex-1",
        el("h3", f"text-xl font-semibold mb-3 {look.accent}", "Visit us"),
        el("p", "mb-1", site.street()),
        el("p", "mb-4", draw.say(words().towns)),
        el("p", "mb-1", f"Telephone {site.phone()}"),
        el("p", "mb-6", site.mail()),
        *(
            [picture(600, 300, f"w-full h-48 object-cover {look.corner}", "Map")]
            if draw.pick(True, False)
            else []
        ),
    )
    wide = el("div", "flex-1", ours)
    pair = draw.pick([where, wide], [wide, where])
    head = title(
        site, draw.say(("Contact", "Write to us", "Say hello")), draw.pick("mb-2", "mb-2 text-center")
    )
    main = section(
        site,
        head,
        el("p", f"mb-8 {look.muted}", draw.say(site.topic.facts)),
        el("div", "flex items-start space-x-12", *pair),
    )
    content = [main, *([questions(site, "Before you write", 4)] if draw.pick(True, False) else [])]
    first = greeting(site) if draw.pick(True, False, False) else None
    return framed(site, ("Home", site.topic.offer, "Contact"), content, first)


def booking(site: Site) -> Element:
    """A search for a place or a date, and suggestions below it."""
    draw, look = site.draw, site.look
    labels = draw.some(("Date", "Guests", "Where to", "Budget"), 3)
    cells = [
        el(
            "div",
            "flex-1",
            el("label", "block text-sm font-semibold mb-1", label, for_=label.lower().replace(" ", "-")),
            el("input", f"w-full px-3 py-2 {look.field}", type_="text", id_=label.lower().replace(" ", "-")),
        )
        for label in labels
    ]
    search = el(
        "form",
        draw.pick(f"{look.card} p-6", f"{look.soft} p-6") + " flex items-end space-x-4",
        *cells,
        button(site, "Search"),
    )
    first = greeting(site) if draw.pick(True, True, False) else None
    band = section(site, search, pad="py-8")
    content = [band, cards(site, draw.say(("Suggestions", "Popular now")), _wares(site), priced=True)]
    return framed(site, ("Search", "Offers", "My bookings"), [*content, *extras(site, 2)], first)


def help_page(site: Site) -> Element:
    """Questions and answers, and where to turn if they do not help."""
    draw = site.draw
    content = [questions(site, draw.say(("Frequent questions", "Help", "Good to know")), draw.pick(4, 6, 8))]
    if draw.pick(True, False):
        topics = cards(site, "Topics", _wares(site), shots=False)
        content.insert(draw.pick(0, 1), topics)
    first = greeting(site) if draw.pick(True, False) else None
    return framed(site, ("Help", "Guides", "Contact"), [*content, call(site)], first)

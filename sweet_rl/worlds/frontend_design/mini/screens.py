"""Kinds of page with an arrangement of their own: screens of an application rather than pages of a site."""

from __future__ import annotations

from sweet_rl.worlds.frontend_design.mini.blocks import form, table
from sweet_rl.worlds.frontend_design.mini.frame import framed
from sweet_rl.worlds.frontend_design.mini.markup import Element, el
from sweet_rl.worlds.frontend_design.mini.site import Site, backdrop, button, picture, section, title
from sweet_rl.worlds.frontend_design.mini.words import words


def dashboard(site: Site) -> Element:
    """Figures, a chart of bars and a table of what came in last."""
    draw, look = site.draw, site.look
    names = draw.some(words().metrics, 4)
    count = draw.pick(3, 4)
    edge = draw.pick("", f"border-l-4 {look.line}")
    tiles = el(
        "div",
        f"grid grid-cols-{count} gap-4 mb-6",
        *(
            el(
                "div",
                f"{look.card} p-5 {edge}",
                el("p", f"text-sm {look.muted}", name),
                el("p", f"text-3xl font-bold {look.accent}", str(draw.number(12, 9800))),
            )
            for name in names[:count]
        ),
    )
    lower = [_chart(site), _latest(site)]
    arrangement = draw.pick("space-y-6", "grid grid-cols-2 gap-6 items-start")
    main = el(
        "div",
        "p-8",
        title(site, draw.say(("Overview", "Today", "How it goes"))),
        tiles,
        el("div", arrangement, *lower[:: draw.pick(1, -1)]),
    )
    return framed(site, ("Overview", "Orders", "People", "Reports", "Settings"), [main])


def _chart(site: Site) -> Element:
    look, count = site.look, site.draw.pick(7, 12)
    labels = [name[:3] for name in (words().days if count == 7 else words().months)]
    lying = site.draw.pick(False, False, True)
    bars = []
    for label in labels:
        share = site.draw.number(12, 100)
        if lying:
            bar = el("div", f"h-4 {look.bar}", style=f"width: {share}%")
            bars.append(
                el(
                    "div",
                    "flex items-center mb-2",
                    el("span", "w-12 text-xs", label),
                    el("div", "flex-1", bar),
                )
            )
        else:
            bar = el("div", look.bar, style=f"height: {2 * share}px")
            bars.append(el("div", "flex-1", bar, el("p", "text-xs text-center mt-1", label)))
    frame = "" if lying else "flex items-end space-x-2 h-56"
    heading = el("h3", "font-semibold mb-4", site.draw.say(words().metrics))
    return el("div", f"{look.card} p-6", heading, el("div", frame, *bars))


def _latest(site: Site) -> Element:
    rows = [
        (site.date(), site.person(), site.draw.say(site.topic.wares), site.draw.say(words().states))
        for _ in range(site.draw.pick(4, 6, 8))
    ]
    heading = el("h3", "font-semibold p-6", "Latest")
    return el("div", f"{site.look.card}", heading, table(site, ("Date", "Who", "What", "State"), rows))


def login(site: Site) -> Element:
    """A door: a form, and something pleasant around it."""
    draw, look = site.draw, site.look
    fields = [("Email", "email"), ("Password", "password")]
    new = draw.pick(True, False)
    if new:
        fields.insert(0, ("Full name", "text"))
    action = draw.say(("Create account", "Join")) if new else draw.say(("Sign in", "Log in", "Enter"))
    head = [
        el("p", f"text-3xl font-bold mb-1 {look.accent}", site.brand),
        el("p", f"mb-6 {look.muted}", draw.say(site.topic.slogans)),
    ]
    below = el("p", f"text-sm mt-4 {look.muted}", "Forgotten your password?")
    box = el("div", "w-96", *head, form(site, fields, action), below)
    shape = draw.pick("centre", "picture", "halves", "halves", "colour")
    middle = "min-h-screen flex items-center justify-center"
    if shape == "halves":
        side = draw.pick(
            el("div", "w-1/2 bg-cover bg-center", style=backdrop(900, 1200)),
            el(
                "div",
                f"w-1/2 flex items-center justify-center p-16 text-3xl {look.bar}",
                draw.say(words().praise),
            ),
        )
        pair = [side, el("div", "w-1/2 flex items-center justify-center", box)]
        return el("body", look.page, el("div", "min-h-screen flex", *pair[:: draw.pick(1, -1)]))
    if shape == "picture":
        card = el("div", f"{look.plain} p-10 {look.corner}", box)
        return el(
            "body", f"{look.page} bg-cover bg-center", el("div", middle, card), style=backdrop(1600, 900)
        )
    if shape == "colour":
        card = el("div", f"{look.plain} p-10 {look.corner}", box)
        return el(
            "body",
            look.page,
            el("div", f"{look.bar} h-64"),
            el("div", "-mt-40 pb-12 flex justify-center", card),
        )
    return el("body", look.page, el("div", middle, box))


def profile(site: Site) -> Element:
    """A person's page: portrait, path so far, and what they can do."""
    draw, look = site.draw, site.look
    band, align = draw.pick(look.card, look.bar, look.soft), draw.pick("text-center", "")
    name, role = site.person(), draw.say(words().roles)
    card = el(
        "div",
        f"w-72 flex-shrink-0 {band} p-6 {align}",
        picture(
            240, 240, f"w-40 h-40 object-cover mb-4 {draw.pick('rounded-full', look.corner)} mx-auto", name
        ),
        el("h1", "text-2xl font-bold", name),
        el("p", "mb-4", role),
        el("p", "text-sm mb-1", site.mail()),
        el("p", "text-sm", draw.say(words().towns)),
    )
    path = [
        el(
            "li",
            "mb-4",
            el(
                "p",
                f"text-sm font-bold {look.accent}",
                f"{draw.number(2008, 2023)}, {draw.say(words().towns)}",
            ),
            el("p", "", f"{draw.say(words().roles)}, {draw.say(site.topic.names)}"),
        )
        for _ in range(draw.pick(3, 4))
    ]
    skills = [
        el(
            "div",
            "mb-3",
            el("p", "text-sm mb-1", ware),
            el(
                "div", "bg-gray-300 h-2", el("div", f"h-2 {look.bar}", style=f"width: {draw.number(35, 98)}%")
            ),
        )
        for ware in draw.some(site.topic.wares, draw.pick(3, 5))
    ]
    parts = [
        el(
            "div",
            "mb-8",
            title(site, "About", "mb-3"),
            el("p", look.muted, " ".join(draw.some(words().thoughts, 2))),
        ),
        el("div", "mb-8", title(site, "Path", "mb-4"), el("ul", f"border-l-2 {look.line} pl-5", *path)),
        el("div", "mb-8", title(site, "Skills", "mb-4"), *skills),
    ]
    text = el("div", "flex-1", *draw.some(parts, 3))
    pair = [card, text][:: draw.pick(1, -1)]
    main = section(site, el("div", "flex items-start space-x-10", *pair))
    if draw.pick(True, False):
        return el("body", look.page, main)
    return framed(site, ("About", "Projects", "Contact"), [main])


def coming(site: Site) -> Element:
    """A page for the time before there is one: a promise, a count of days, a line to leave an address."""
    draw, look = site.draw, site.look
    days = [("Days", draw.number(3, 90)), ("Hours", draw.number(1, 23)), ("Minutes", draw.number(1, 59))]
    clock = el(
        "div",
        "flex justify-center space-x-6 my-8",
        *(
            el(
                "div",
                f"{draw_box} w-28 py-4",
                el("p", "text-4xl font-bold", str(value)),
                el("p", "text-sm", unit),
            )
            for draw_box in [draw.pick(look.card, look.bar, look.soft)]
            for unit, value in days
        ),
    )
    ask = el(
        "form",
        "flex justify-center",
        el("input", f"w-80 px-4 py-3 {look.field}", type_="email", placeholder="Your email"),
        el("button", f"px-6 py-3 font-semibold {look.button}", "Tell me", type_="button"),
    )
    parts = [
        el("p", f"text-2xl font-bold mb-6 {look.accent}", site.brand),
        el(
            "h1",
            "text-5xl font-bold mb-4",
            draw.say(("Almost there", "Opening soon", "Something new is coming")),
        ),
        el("p", f"text-xl {look.muted}", draw.say(site.topic.slogans)),
    ]
    parts += draw.pick([clock, ask], [ask], [clock])
    inner = el("div", "text-center p-10", *parts)
    if draw.pick(True, False):
        shot = picture(1600, 500, "w-full h-64 object-cover", site.brand)
        return el("body", look.page, shot, inner)
    middle = "min-h-screen flex items-center justify-center"
    return el("body", f"{look.page} {middle}", inner)


def listing(site: Site) -> Element:
    """Things one below the other, each with its facts and a button: places to let, posts to fill, courses."""
    draw, look = site.draw, site.look
    shots = draw.pick(True, False)
    entry = draw.pick(f"{look.card} p-5 mb-4", f"border-b {look.line} py-5")

    def row(name: str) -> Element:
        facts = f"{draw.say(words().towns)} · {draw.say(words().days)} · {site.price()}"
        shot = [picture(200, 140, f"w-32 h-24 object-cover {look.corner}", name)] if shots else []
        text = el(
            "div", "flex-1", el("h3", "text-lg font-semibold", name), el("p", f"text-sm {look.muted}", facts)
        )
        return el("div", f"flex items-center space-x-6 {entry}", *shot, text, button(site, "Details"))

    rows = [row(name) for name in draw.some(site.topic.wares, draw.pick(4, 5, 6))]
    search = el("input", f"w-full px-4 py-3 mb-6 {look.field}", type_="text", placeholder="Search")
    head = title(site, draw.say((f"All {site.topic.offer.lower()}", "Open now", "Find yours")))
    parts = [head, search, *rows] if draw.pick(True, False) else [head, *rows]
    return framed(site, ("All", "Saved", "Messages"), [section(site, *parts)])

"""The agent's task text: an idea of a page, as vague as the ideas that ColBench's pages were made from.

It says what the page is for and what is found on it, and at most hints at its colours. Where things stand,
how many there are and what they look like is for the agent to ask.
"""

from __future__ import annotations

from sweet_rl.mini.frontend.pages.site import Site
from sweet_rl.mini.frontend.pages.words import words


def description(site: Site, kind: str) -> str:
    """The request that goes with a page of this kind."""
    draw, about = site.draw, site.topic["about"]
    purpose = draw.say(words()["purposes"][kind])
    article = "an" if about[0] in "aeiou" else "a"
    start = draw.pick(
        f"{_upper(about)}: {purpose}",
        f"{_upper(about)} site: {purpose}",
        f"{_upper(purpose).removesuffix('.')}, made for {article} {about}.",
    )
    hints = [start, draw.say(words()["styles"]), *draw.some(words()["wishes"], 2)]
    if site.look["dark"]:
        hints.insert(2, "Dark tones set the mood.")
    elif draw.pick(True, False, False):
        hints.insert(2, f"{_upper(site.look['color'])} is the colour of the house.")
    return " ".join(hints)


def _upper(text: str) -> str:
    return text[0].upper() + text[1:]

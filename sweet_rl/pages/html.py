"""Finds pages in an agent's text. Text in, text out: nothing is parsed or rendered here.

Published behaviour: docs/published/sweet_rl.md#frontend-design.
"""

from __future__ import annotations

import re

PLACEHOLDER = "[SEE RENDERED HTML]"
"""What stands for a page where its picture is shown instead."""

_UNSPLASH = re.compile(r"https://source\.unsplash\.com/random/(\d+)x(\d+)/\?[\w=]+")
_PICSUM = re.compile(r"https://picsum\.photos/(\d+)/(\d+)")
_PICTURE = r"https://picsum.photos/id/48/\1/\2"


def normalise_urls(text: str) -> str:
    """Give every picture whose content is random the fixed picture 48 of the same size.

    Two shapes of address are known, as published; other addresses stay (`replace_urls`).
    """
    return _PICSUM.sub(_PICTURE, _UNSPLASH.sub(_PICTURE, text))


def extract_html(text: str) -> tuple[str, str | None]:
    """The first page in a text, its addresses normalised, and the text with a placeholder in its place.

    A page is the first `<html…>…</html>`, else the first `<body…>…</body>`. As published, tags are found in
    lower case only, and every occurrence of that same page is replaced.

    Returns:
        The text, and the page or None where there is none.
    """
    text = normalise_urls(text)
    page = _between(text, "<html", "</html>") or _between(text, "<body", "</body>")
    return (text, None) if page is None else (text.replace(page, PLACEHOLDER), page)


def _between(text: str, opening: str, closing: str) -> str | None:
    # What the pattern `<html.*?>.*?</html>` finds, in one pass also over a text of a million half tags.
    start = text.find(opening)
    opened = text.find(">", start) if start >= 0 else -1
    end = text.find(closing, opened) if opened >= 0 else -1
    return text[start : end + len(closing)] if end >= 0 else None

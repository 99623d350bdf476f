"""Builds pages that load nothing else: the viewer's, of the files of `static/`, and reports, from templates.

Model-written text is hostile. The viewer's page inserts it with `textContent` only, which the browser enforces
(Trusted Types); in reports jinja2 escapes it. A Content-Security-Policy allows exactly the scripts and styles
whose hashes are computed here. A page that is not served may not use the network at all.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from sweet_rl.types import Json

_STYLES = ("palette.css", "app.css")
_REPORT_STYLES = ("palette.css", "report_page.css")
_SCRIPTS = (
    "dom.js",
    "source.js",
    "credit.js",
    "chat.js",
    "python.js",
    "diff.js",
    "code.js",
    "game.js",
    "compare.js",
    "design.js",
    "turns.js",
    "pairs.js",
    "charts.js",
    "documents.js",
    "files.js",
    "browse.js",
    "list.js",
    "detail.js",
    "address.js",
    "highlights.js",
    "app.js",
)
"""In the order in which they need each other."""

_DATA = "<!--data-->"


@dataclass(frozen=True, slots=True)
class Page:
    """A page cut where its data goes: write `head`, then data blocks, then `tail`.

    `policy` is the Content-Security-Policy that `head` declares, for those who can send it as a header too.
    """

    head: str
    tail: str
    policy: str


def build_page(title: str, *, served: bool, folder: bool = False) -> Page:
    """The page for a window titled `title`.

    Args:
        title: of the window.
        served: it may ask its own server for rows.
        folder: it may take rows from scripts and pictures from files beside it; a page from a disk may
            read no other files. Only names that it makes itself are taken (Trusted Types).
    """
    style = "".join(map(static_text, _STYLES))
    scripts = [static_text(name) for name in _SCRIPTS]
    own_server = "'self'" if served else "'none'"
    beside = " 'self' file:" if folder else ""
    images = " 'self'" if served else beside
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src {' '.join(map(source_hash, scripts))}{beside}",
            f"style-src {source_hash(style)}",
            f"img-src data:{images}",
            f"connect-src {own_server}",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types rows" if folder else "trusted-types 'none'",
        ]
    )
    parts = {
        "<!--policy-->": html.escape(policy),
        "<!--title-->": html.escape(title),
        "<!--style-->": f"<style>{style}</style>",
        "<!--scripts-->": "\n".join(f"<script>{script}</script>" for script in scripts),
    }
    head, tail = static_text("index.html").split(_DATA)
    for marker, part in parts.items():
        head, tail = head.replace(marker, part), tail.replace(marker, part)
    return Page(head, tail, policy)


def data_block(element_id: str, values: Iterable[Json]) -> Iterator[str]:
    """Chunks of an element that holds JSON for the page to read, each value after a line break."""
    yield f'<script type="application/json" id="{element_id}">'
    for value in values:
        yield f"\n{embed(value)}"
    yield "</script>\n"


def embed(value: Json) -> str:
    """JSON that is safe inside an HTML script element: plain ASCII, without any `<`.

    ASCII because of the two line separators that are not JSON's, and of lone surrogates, which UTF-8 lacks.
    """
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def static_text(name: str) -> str:
    """The text of a packaged file of `static/`."""
    return (files("sweet_rl.viewer") / "static" / name).read_text(encoding="utf-8")


def source_hash(text: str) -> str:
    """How a Content-Security-Policy names the inline script or style `text`."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def from_template(
    package: str, template: str, *, style: str, script: str = "", rules: Sequence[str] = (), **given: Any
) -> str:
    """A report from a jinja2 template, which has `policy`, `style` and `script` beside what is given.

    Args:
        package: that has the folders `templates` and `static`.
        template: its name there.
        style: the page's own, by its name there.
        script: likewise; empty: it has none, and none may run.
        rules: of the Content-Security-Policy, further ones.
        given: to the template.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined  # the viewer has no need of them
    from markupsafe import Markup

    own = files(package) / "static"
    css = "".join(map(static_text, _REPORT_STYLES)) + (own / style).read_text(encoding="utf-8")
    javascript = (own / script).read_text(encoding="utf-8") if script else ""
    environment = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    policy = [
        "default-src 'none'",
        *([f"script-src {source_hash(javascript)}"] if script else []),
        f"style-src {source_hash(css)}",
        *rules,
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        *(["require-trusted-types-for 'script'"] if script else []),
    ]
    return environment.get_template(template).render(
        policy="; ".join(policy),
        style=Markup(css),  # noqa: S704 - files of packages
        script=Markup(javascript),  # noqa: S704 - likewise
        **given,
    )

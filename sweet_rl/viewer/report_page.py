"""Pages for themselves, without a server: reports of studies and of comparisons.

What models wrote is hostile: jinja2 escapes every text, and a Content-Security-Policy allows the page's own
style and script and the pictures in it, nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from sweet_rl.viewer.page import source_hash, static_text

_STYLES: Final = ("palette.css", "report_page.css")
"""What all of these pages share, before their own."""


def from_template(
    package: str, template: str, *, style: str, script: str = "", rules: Sequence[str] = (), **given: Any
) -> str:
    """A page from a jinja2 template, which has `policy`, `style` and `script` beside what is given.

    Args:
        package: that has the folders `templates` and `static`.
        template: its name there.
        style: the page's own, by its name there.
        script: likewise; empty: it has none, and none may run.
        rules: of the Content-Security-Policy, further ones.
        given: to the template.
    """
    own = files(package) / "static"
    css = "".join(map(static_text, _STYLES)) + (own / style).read_text(encoding="utf-8")
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

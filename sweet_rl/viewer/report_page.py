"""Pages for themselves, without a server: reports of studies and of comparisons.

What models wrote is hostile: jinja2 escapes every text, and a Content-Security-Policy allows the page's own
style and script and the pictures in it, nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from sweet_rl.viewer.page import source_hash


def from_template(
    package: str, template: str, *, style: str, script: str = "", rules: Sequence[str] = (), **given: Any
) -> str:
    """A page from a jinja2 template, which has `policy`, `style` and `script` beside what is given.

    Args:
        package: that has the folder `templates`.
        template: its name there.
        style: of the page.
        script: of the page; empty: it has none, and none may run.
        rules: of the Content-Security-Policy, further ones.
        given: to the template.
    """
    environment = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    policy = [
        "default-src 'none'",
        *([f"script-src {source_hash(script)}"] if script else []),
        f"style-src {source_hash(style)}",
        *rules,
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        *(["require-trusted-types-for 'script'"] if script else []),
    ]
    return environment.get_template(template).render(
        policy="; ".join(policy),
        style=Markup(style),  # noqa: S704 - a file of a package
        script=Markup(script),  # noqa: S704 - likewise
        **given,
    )

"""The five addresses of a shop, as paths.

/{session}
/search_results/{session}/{query}/{page}
/item_page/{session}/{asin}/{query}/{page}/{options}
/item_sub_page/{session}/{asin}/{query}/{page}/{subpage}/{options}
/done/{session}/{asin}/{options}

`{options}` is what Python's `repr` makes of a dict of option type to value.

Published behaviour: docs/published/archer.md#webshop.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import quote

Options = Mapping[str, str]


class PageKind(StrEnum):
    """A kind of page, by the first part of its path; the start page's path begins with the session."""

    START = "start"
    SEARCH = "search_results"
    ITEM = "item_page"
    SUB = "item_sub_page"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Address:
    """One page of a session. Parts that its kind has no use for are kept, so that "< Prev" finds its way.

    `raw`: it is sent as the published client sends it (`Quirks.raw_addresses`).
    """

    kind: PageKind
    session: str
    query: str = ""
    page: int = 1
    asin: str = ""
    subpage: str = ""
    options: Options = field(default_factory=dict)
    raw: bool = False

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the path, as they read."""
        chosen = str(dict(self.options))
        match self.kind:
            case PageKind.START:
                return (self.session,)
            case PageKind.SEARCH:
                return (self.kind, self.session, self.query, str(self.page))
            case PageKind.ITEM:
                return (self.kind, self.session, self.asin, self.query, str(self.page), chosen)
            case PageKind.SUB:
                return (
                    self.kind,
                    self.session,
                    self.asin,
                    self.query,
                    str(self.page),
                    self.subpage,
                    chosen,
                )
            case PageKind.DONE:
                return (self.kind, self.session, self.asin, chosen)

    @property
    def readable(self) -> str:
        """The path, unescaped, for messages and for the published test of selected options."""
        return "/" + "/".join(self.parts)

    @property
    def path(self) -> str:
        """The path as it is sent, percent-encoded. What UTF-8 cannot hold becomes a question mark."""
        if self.raw:
            return _as_requests_sends(self.readable)
        return "/" + "/".join(quote(part, safe="", errors="replace") for part in self.parts)


def _as_requests_sends(path: str) -> str:
    """What the package requests makes of a path that is not quoted: `/`, `?` and `#` mean what they mean."""
    path, mark, query = path.partition("#")[0].partition("?")
    parts: list[str] = []
    for part in path.split("/")[1:]:
        if part == "..":
            del parts[-1:]
        elif part != ".":
            parts.append(part)
    ending = [""] if path.endswith(("/.", "/..")) else []
    return _escaped("/" + "/".join([*parts, *ending])) + mark + _escaped(query, also="?")


def _escaped(text: str, also: str = "") -> str:
    """Percent-encoded; escapes in the text stay what they are if each percent sign begins one."""
    escapes = len(re.findall("%[0-9A-Fa-f]{2}", text)) == text.count("%")
    return quote(text, safe=f"/!$&'()*+,;=:@~{also}{'%' * escapes}", errors="replace")

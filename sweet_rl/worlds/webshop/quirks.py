"""The faults of the published shop client, each by its name.

All off is the repaired behaviour, the default; `PUBLISHED` has them all on, as recorded.

Published behaviour: docs/published/archer.md#webshop, #deviations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sweet_rl.errors import UsageError
from sweet_rl.types import Compat


@dataclass(frozen=True, slots=True)
class Quirks:
    """Published oddities.

    Args:
        any_page: a page that is none of the shop's (an error text, for example) is shown as it is.
            Repaired: it is asked for again, then recorded as a failure of the world.
        redecode: backslash sequences in a page's text are interpreted. Repaired: text stays as it is.
        selected_by_url: an option shows as selected when its text stands in single quotes anywhere in the
            address, so that values whose repr has double quotes never do. Repaired: when it is selected.
        hidden_products: products beyond the third of a page are not shown, but can be clicked. Repaired: what
            is not shown cannot be clicked.
        stale_options: options of an earlier item can be clicked on an item that has none of its own.
        unknown_click_refetches: on a start or sub page a click on nothing fetches the page again. Repaired:
            it is an invalid action.
        unlisted_buttons: a button can be clicked where its kind of page may have it. Repaired: where the
            page has it.
        no_next_page: "Next >" is shown and always invalid, and "< Prev" never turns back a result page.
        cut_by_position: an action's argument is everything behind the bracket but the last character,
            whatever that is, and may be empty. Repaired: it ends at the last closing bracket; blanks around
            it do not count, nor slashes, which no shop's address can carry; an empty query is invalid.
        raw_addresses: a query goes into the address as it is, so that `/`, `?` and `#` in it, or nothing at
            all, ask for a page that there is not; and what comes with an error's status is read like a page.
        late_limit: the turn limit is noticed one turn too late: an episode cut short has one turn more, which
            does nothing.
    """

    any_page: bool = False
    redecode: bool = False
    selected_by_url: bool = False
    hidden_products: bool = False
    stale_options: bool = False
    unknown_click_refetches: bool = False
    unlisted_buttons: bool = False
    no_next_page: bool = False
    cut_by_position: bool = False
    raw_addresses: bool = False
    late_limit: bool = False


FIXED: Final = Quirks()
PUBLISHED: Final = Quirks(
    any_page=True,
    redecode=True,
    selected_by_url=True,
    hidden_products=True,
    stale_options=True,
    unknown_click_refetches=True,
    unlisted_buttons=True,
    no_next_page=True,
    cut_by_position=True,
    raw_addresses=True,
    late_limit=True,
)


def quirks_of(compat: Compat) -> Quirks:
    """The set of a `compat` setting."""
    sets = {"fixed": FIXED, "published": PUBLISHED}
    if compat not in sets:
        raise UsageError(f"compat is 'fixed' or 'published', got {compat!r}.")
    return sets[compat]

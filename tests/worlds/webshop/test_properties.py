"""Whatever a page holds and whatever an agent says: no exception but the one that is recorded, no lost state."""

import asyncio
from urllib.parse import unquote

from hypothesis import given, settings
from hypothesis import strategies as st

from sweet_rl.mini.shop import EmbeddedShop
from sweet_rl.worlds.webshop.pages import FIXED, PUBLISHED, Address, OddPage, PageKind, read_page
from sweet_rl.worlds.webshop.shops import LocalShop
from sweet_rl.worlds.webshop.world import WebShopEnv
from tests.worlds.webshop.conftest import task_of

SHOP = EmbeddedShop(0, 40)
TAGS = [
    "<button>", "</button>", "<label>", "<a class=product-link>", "</a>", "<script>", "</script>", "<br/>",
]  # fmt: skip
ODD = [
    "<![", "<![x[", "<!", "<!--", "-->", "<?", "<", "</", ">", "&#99999999999;", "&amp", "\x00", "\\", "\\u",
    "'",
]  # fmt: skip
WORDS = ["Your score (min 0.0, max 1.0)", "Instruction: ", "Back to Search", "Search", "x"]
PIECES = st.sampled_from(TAGS) | st.sampled_from(ODD) | st.sampled_from(WORDS) | st.text(max_size=4)
MARKUP = st.lists(PIECES, max_size=12).map("".join)
ADDRESSES = st.builds(
    Address,
    kind=st.sampled_from(PageKind),
    session=st.text(min_size=1),
    query=st.text(),
    asin=st.text(),
    subpage=st.text(),
    options=st.dictionaries(st.text(), st.text(), max_size=2),
)
LABELS = ["Buy Now", "Back to Search", "< Prev", "Next >", "Description", "Reviews", "Search", "red", "black"]
ACTIONS = (
    st.sampled_from([f"click[{label}]" for label in LABELS])
    | st.sampled_from([f"click[{product.asin}]" for product in SHOP.products[:8]])
    | st.sampled_from(["search[shirt for men]", "search[lamp", "think[]", "search[\ud800/]"])
    | st.integers(0, 9).map(str)  # one of the things that can be clicked
    | st.text()
    | st.text().map("search[{}]".format)
    | st.text().map("click[{}]".format)
)


@given(html=MARKUP, address=ADDRESSES, quirks=st.sampled_from([FIXED, PUBLISHED]))
def test_any_page_is_read_or_refused(html, address, quirks):
    try:
        page = read_page(html, address, quirks)
    except OddPage:
        return
    assert isinstance(page.text, str)


@given(address=ADDRESSES)
def test_a_path_has_as_many_parts_as_its_address_and_they_come_back(address):
    parts = [unquote(part) for part in address.path.split("/")[1:]]
    assert parts == [part.encode("utf-8", "replace").decode() for part in address.parts]
    assert address.path.isascii()


@settings(max_examples=60, deadline=None)
@given(actions=st.lists(ACTIONS, max_size=14), quirks=st.sampled_from([FIXED, PUBLISHED]))
def test_any_visit_ends_in_time_and_is_told_in_full(actions, quirks):
    async def main():
        env = WebShopEnv(LocalShop(SHOP.get), quirks=quirks)
        seen = await env.reset(task_of("fixed_1"), seed=0)
        over = False
        for turn, action in enumerate(actions, start=1):
            if action.isdecimal():
                shown = [part.split("]")[0] for part in seen.messages[-1].content.split("[")[1:]]
                action = f"click[{shown[int(action) % len(shown)]}]" if shown else action
            step = await env.step(action)
            if over:
                assert (step.observation, step.terminated, step.reward) == (None, True, None)
                continue
            over = step.over
            assert over or step.stop_reason is None
            assert over == (turn == 10) or step.terminated or quirks.late_limit
            assert 0.0 <= step.reward <= 1.0
            if step.observation is not None:
                assert step.observation.messages[:-2] == seen.messages
                assert step.observation.messages[-2].content == action.removesuffix("\n")
                seen = step.observation

    asyncio.run(main())

"""A shop behind a socket: the same pages, and what happens when there are none."""

import asyncio
from urllib.parse import unquote

import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from sweet_rl.errors import EpisodeError, ServiceError, UsageError
from sweet_rl.mini.shop import EmbeddedShop
from sweet_rl.mini.shopper import ShopperPolicy
from sweet_rl.openai_client import RetryPolicy
from sweet_rl.records import task_from_row
from sweet_rl.types import StopReason
from sweet_rl.worlds.webshop.pages import Address, OddPage, PageKind, read_page, visible_nodes
from sweet_rl.worlds.webshop.shops import HttpShop, LocalShop
from sweet_rl.worlds.webshop.world import WebShopEnv, webshop_tasks
from tests.worlds.playing import rolled
from tests.worlds.webshop.conftest import serving, task_of

QUICK = RetryPolicy(attempts=3, timeout_s=0.3, first_wait_s=0.0)


def shop_at(url):
    return HttpShop(url, retry=QUICK)


async def play(shop, tasks):
    trajectories = await rolled(lambda: WebShopEnv(shop), ShopperPolicy("careful"), tasks)
    await shop.close()
    return trajectories


async def test_over_a_socket_everything_is_the_same():
    embedded = EmbeddedShop()
    tasks = [task_from_row(row) for row in webshop_tasks(2000, 2008, shop=embedded)]

    async with serving(embedded) as url:
        over_http = await play(shop_at(f"{url}/"), tasks)
    in_process = await play(LocalShop(embedded.get), tasks)
    assert over_http == in_process
    assert all(trajectory.reward is not None for trajectory in over_http)


def answering(*replies):
    """A server that gives one reply after the other, the last one for ever; and how often it was asked."""
    asked = []

    async def get(request):
        asked.append(request.path)
        reply = replies[min(len(asked), len(replies)) - 1]
        if reply == "slow":
            await asyncio.sleep(5)
        if reply == "gone":
            request.transport.abort()
        status, text = reply if isinstance(reply, tuple) else (200, str(reply))
        return web.Response(status=status, text=text, content_type="text/html")

    app = web.Application()
    app.router.add_get("/{path:.*}", get)
    return app, asked


START = EmbeddedShop(0, 10).get("/fixed_1")


async def enter(*replies):
    """What was asked, and what the episode began with, or the error that it ended with."""
    app, asked = answering(*replies)
    async with serving(None, app) as url:
        shop = shop_at(url)
        try:
            return asked, await WebShopEnv(shop).reset(task_of("fixed_1"), seed=0)
        except EpisodeError as error:
            return asked, error
        finally:
            await shop.close()


@pytest.mark.parametrize("trouble", [(500, "oops"), (503, ""), "slow", "gone", "<html>Maintenance", ""])
async def test_what_can_pass_is_tried_again(trouble):
    asked, seen = await enter(trouble, trouble, START)
    assert "Instruction:" in seen.messages[0].content
    assert asked == ["/fixed_1"] * 3


@pytest.mark.parametrize(
    ("trouble", "kind", "says"),
    [
        ((500, "<h1>Traceback</h1> in search"), "server_error", "Traceback in search"),
        ("slow", "timeout", "no whole answer within 0.3 s"),
        ("<html>Maintenance", "odd_page", "the page begins '<html>Maintenance'"),
    ],
)
async def test_what_does_not_pass_is_recorded(trouble, kind, says):
    asked, error = await enter(trouble, trouble, trouble, "the shop is there, at least")
    failure = error.failure
    assert error.stop_reason is StopReason.WORLD_FAILED
    assert (failure.kind, failure.attempts) == (kind, 3)
    assert "/fixed_1: " in failure.detail
    assert says in failure.detail
    assert asked[:3] == ["/fixed_1"] * 3


async def test_what_is_refused_is_not_asked_for_again():
    asked, error = await enter((404, "no such session"))
    assert (error.failure.kind, len(asked)) == ("refused", 1)
    assert "no such session" in error.failure.detail


async def test_a_server_that_goes_away_ends_the_run():
    """Nobody can shop there any more: a person must act."""
    async with serving(EmbeddedShop(0, 50)) as url:
        shop = shop_at(url)
        env = WebShopEnv(shop)
        await env.reset(task_of("fixed_1"), seed=0)
    with pytest.raises(ServiceError, match=r"No shop answers at http://127.*3 attempts.*serve_shop"):
        await env.step("search[shirt]")
    await shop.close()


@pytest.mark.parametrize("url", ["", "shop", "ftp://shop", "http://", "http://me:key@shop", "http://a:b"])
def test_an_address_is_an_address(url):
    with pytest.raises(UsageError, match="A base URL"):
        HttpShop(url)


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


@given(html=MARKUP, address=ADDRESSES, published=st.booleans())
def test_any_page_is_read_or_refused(html, address, published):
    try:
        page = read_page(html, address, published=published)
    except OddPage:
        return
    assert isinstance(page.text, str)


@given(address=ADDRESSES)
def test_a_path_has_as_many_parts_as_its_address_and_they_come_back(address):
    parts = [unquote(part) for part in address.path.split("/")[1:]]
    assert parts == [part.encode("utf-8", "replace").decode() for part in address.parts]
    assert address.path.isascii()


@settings(max_examples=40, deadline=None)
@given(actions=st.lists(ACTIONS, max_size=14), published=st.booleans())
def test_any_visit_ends_in_time_and_is_told_in_full(actions, published):
    async def main():
        env = WebShopEnv(LocalShop(SHOP.get), published=published)
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
            assert over == (turn == 10) or step.terminated or published
            assert 0.0 <= step.reward <= 1.0
            if step.observation is not None:
                assert step.observation.messages[:-2] == seen.messages
                assert step.observation.messages[-2].content == action.removesuffix("\n")
                seen = step.observation

    asyncio.run(main())


@pytest.mark.parametrize("unfinished", ["<a b='", "<!-- "])
def test_a_page_of_tags_or_comments_without_an_end_is_refused_before_it_takes_long(unfinished):
    visible_nodes(unfinished * 50)
    with pytest.raises(OddPage, match="more than 100 tags or comments have no end"):
        visible_nodes(unfinished * 20_000)

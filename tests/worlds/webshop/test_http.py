"""A shop behind a socket: the same pages, and what happens when there are none."""

import asyncio
import random

import pytest
from aiohttp import web

from sweet_rl.errors import EpisodeError, ServiceError, UsageError
from sweet_rl.mini.shop import EmbeddedShop
from sweet_rl.mini.shopper import ShopperPolicy
from sweet_rl.openai_client import RetryPolicy
from sweet_rl.records import task_from_row
from sweet_rl.rollout import rollout, schedule
from sweet_rl.types import StopReason
from sweet_rl.worlds.webshop.shops import HttpShop, LocalShop
from sweet_rl.worlds.webshop.world import WebShopEnv, webshop_tasks
from tests.worlds.webshop.conftest import task_of
from tests.worlds.webshop.serving import serving

QUICK = RetryPolicy(attempts=3, timeout_s=0.3, first_wait_s=0.0)


def shop_at(url, **differs):
    return HttpShop(url, retry=QUICK, jitter=random.Random(0), **differs)


async def play(shop, tasks):
    trajectories = []

    async def finished(trajectory):
        trajectories.append(trajectory)

    await rollout(
        schedule(tasks, 1),
        make_env=lambda: WebShopEnv(shop),
        policy=ShopperPolicy("careful"),
        on_finished=finished,
        concurrency=4,
    )
    await shop.close()
    return sorted(trajectories, key=lambda trajectory: trajectory.task.task_id)


def test_over_a_socket_everything_is_the_same():
    embedded = EmbeddedShop()
    tasks = [task_from_row(row) for row in webshop_tasks(2000, 2008, shop=embedded)]

    async def main():
        async with serving(embedded) as url:
            return await play(shop_at(f"{url}/"), tasks), await play(LocalShop(embedded.get), tasks)

    over_http, in_process = asyncio.run(main())
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


def enter(*replies):
    app, asked = answering(*replies)

    async def main():
        async with serving(None, app) as url:
            shop = shop_at(url)
            try:
                return await WebShopEnv(shop).reset(task_of("fixed_1"), seed=0)
            finally:
                await shop.close()

    return asked, main


@pytest.mark.parametrize("trouble", [(500, "oops"), (503, ""), "slow", "gone", "<html>Maintenance", ""])
def test_what_can_pass_is_tried_again(trouble):
    asked, main = enter(trouble, trouble, START)
    assert "Instruction:" in asyncio.run(main()).messages[0].content
    assert asked == ["/fixed_1"] * 3


@pytest.mark.parametrize(
    ("trouble", "kind", "says"),
    [
        ((500, "<h1>Traceback</h1> in search"), "server_error", "Traceback in search"),
        ("slow", "timeout", "no whole page within 0.3 s"),
        ("<html>Maintenance", "odd_page", "the page begins '<html>Maintenance'"),
    ],
)
def test_what_does_not_pass_is_recorded(trouble, kind, says):
    asked, main = enter(trouble, trouble, trouble, "the shop is there, at least")
    with pytest.raises(EpisodeError) as caught:
        asyncio.run(main())
    failure = caught.value.failure
    assert caught.value.stop_reason is StopReason.WORLD_FAILED
    assert (failure.kind, failure.attempts) == (kind, 3)
    assert "/fixed_1: " in failure.detail
    assert says in failure.detail
    assert asked[:3] == ["/fixed_1"] * 3


def test_what_is_refused_is_not_asked_for_again():
    asked, main = enter((404, "no such session"))
    with pytest.raises(EpisodeError, match=r"refused.*no such session"):
        asyncio.run(main())
    assert len(asked) == 1


def test_a_server_that_goes_away_ends_the_run():
    """Nobody can shop there any more: a person must act."""
    embedded = EmbeddedShop(0, 50)

    async def main():
        async with serving(embedded) as url:
            shop = shop_at(url)
            env = WebShopEnv(shop)
            await env.reset(task_of("fixed_1"), seed=0)
        try:
            await env.step("search[shirt]")
        finally:
            await shop.close()

    with pytest.raises(ServiceError, match=r"No shop answers at http://127.*3 attempts.*serve_shop"):
        asyncio.run(main())


def test_one_failure_leaves_the_other_episodes_alone():
    embedded = EmbeddedShop(0, 50)
    tasks = [task_from_row(row) for row in webshop_tasks(1, 5, shop=embedded)]

    async def get(request):
        if "fixed_2" in request.path and "search" in request.path:
            return web.Response(status=500, text="boom")
        return web.Response(text=embedded.get(request.rel_url.raw_path), content_type="text/html")

    app = web.Application()
    app.router.add_get("/{path:.*}", get)

    async def main():
        async with serving(None, app) as url:
            return await play(shop_at(url), tasks)

    trajectories = asyncio.run(main())
    assert [trajectory.error is None for trajectory in trajectories] == [True, False, True, True]
    failed = trajectories[1]
    assert (failed.stop_reason, failed.error.status, failed.error.turn) == (StopReason.WORLD_FAILED, 500, 1)
    assert failed.reward is None


@pytest.mark.parametrize(
    "url", ["", "shop", "ftp://shop", "http://", "http://me:key@shop", "http://a:b", "http://a?b"]
)
def test_an_address_is_an_address(url):
    with pytest.raises(UsageError, match="A shop's address looks like"):
        HttpShop(url)

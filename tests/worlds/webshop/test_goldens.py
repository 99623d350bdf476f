"""The published client of the shop, request by request and character by character."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from sweet_rl.worlds.webshop.pages import PUBLISHED, ShopTranscript, shop_instruction
from sweet_rl.worlds.webshop.shops import HttpShop
from sweet_rl.worlds.webshop.world import WebShopEnv
from tests.worlds.webshop.conftest import GivenPages, task_of
from tests.worlds.webshop.serving import serving


@pytest.fixture
def golden(shared):
    return json.loads((shared / "goldens/archer/env_expected.json").read_text())["webshop"]


@asynccontextmanager
async def in_process(golden):
    shop = GivenPages(golden["server_pages"])
    yield shop, shop.asked


@asynccontextmanager
async def over_http(golden):
    given = GivenPages(golden["server_pages"])

    async def get(request):
        return web.Response(text=given.page(request.rel_url.raw_path), content_type="text/html")

    app = web.Application()
    app.router.add_get("/{path:.*}", get)
    async with serving(None, app) as url:
        shop = HttpShop(url)
        yield shop, given.asked
        await shop.close()


@pytest.mark.parametrize("open_shop", [in_process, over_http])
@pytest.mark.parametrize("number", [0, 1])
def test_published_transcripts(golden, number, open_shop):
    first, *steps = golden["transcripts"][number]
    transcript = ShopTranscript().render

    async def main():
        async with open_shop(golden) as (shop, asked):
            await compare(shop, asked)

    async def compare(shop, asked):
        env = WebShopEnv(shop, quirks=PUBLISHED)
        seen = await env.reset(task_of("fixed_2000"), seed=0)
        instruction = shop_instruction(seen.messages[0].content)
        assert instruction == first["instruction"]
        suffix = f"\nInstruction:\n{instruction}"
        assert transcript(seen.messages) == first["obs"]
        assert asked == first["requests"]
        for golden_step in steps:
            asked.clear()
            step = await env.step(golden_step["action"])
            assert asked == golden_step["requests"]
            if golden_step["result"] is None or "think[f]" in golden_step["action"]:  # after the end
                assert (step.observation, step.terminated) == (None, True)
                continue
            text, reward, done = golden_step["result"]
            assert (step.reward, step.over) == (reward, done)
            assert transcript(step.observation.messages) == text
            assert text.endswith(suffix) != step.truncated

    asyncio.run(main())


def test_what_the_published_client_crashes_at_is_an_invalid_action(golden):
    """An empty action and "reset" raise there."""
    assert golden["transcripts"][2][1]["result"].startswith("IndexError")
    assert golden["transcripts"][3][1]["result"].startswith("NotImplementedError")

    async def main(action):
        env = WebShopEnv(GivenPages(golden["server_pages"]), quirks=PUBLISHED)
        await env.reset(task_of("fixed_2000"), seed=0)
        return await env.step(action)

    for action in ("", "reset"):
        step = asyncio.run(main(action))
        assert step.observation.messages[-1].content == "Invalid action!"
        assert (step.reward, step.over) == (0.0, False)

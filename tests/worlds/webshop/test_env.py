"""The repaired world, beside the published one where they differ."""

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from aiohttp import web

from sweet_rl.errors import DataError, EpisodeError
from sweet_rl.mini.shop import EmbeddedShop
from sweet_rl.types import Message, StopReason, Task
from sweet_rl.worlds.webshop.pages import CLOSED, Address, PageKind, ShopTranscript, shop_instruction
from sweet_rl.worlds.webshop.shops import HttpShop, LocalShop
from sweet_rl.worlds.webshop.world import WebShopEnv
from tests.worlds.playing import RULES, dialogue
from tests.worlds.webshop.conftest import GivenPages, serving, task_of

START = "<html><h4>Instruction: <br>buy it</h4><button>Search</button></html>"
BACK = "<h4>Instruction: <br>buy it</h4><button>Back to Search</button>"
ITEM = f"<html>{BACK}<button>&lt; Prev</button>%s<button>Features</button><button>Buy Now</button></html>"
SUB = f"<html>{BACK}<button>&lt; Prev</button><p>soft</p></html>"
DONE = "<html><h3>Your score (min 0.0, max 1.0)</h3>\n<pre>0.5</pre></html>"


def results(*asins, more=""):
    links = "".join(f'<a class="product-link">{asin}</a><b>{asin} it</b><i>$1</i>' for asin in asins)
    return f"<html>{BACK}<h3>Page 1</h3>{more}{links}</html>"


PAGES = {
    "/s": START,
    "/search_results/s/q/1": results("A1", "A2", "A3", "A4", more="<button>Next &gt;</button>"),
    "/search_results/s/q/2": results("A5", more="<button>&lt; Prev</button>"),
    "/item_page/s/A1/q/1/{}": ITEM % "<h4>color</h4><label>men's red</label><label>blue</label>",
    """/item_page/s/A1/q/1/{'color': "men's red"}""": ITEM
    % "<h4>color</h4><label>men's red</label><label>blue</label>",
    "/item_page/s/A2/q/1/{}": ITEM % "",
    "/item_page/s/A2/q/1/{'color': 'blue'}": ITEM % "",
    "/item_page/s/A4/q/1/{}": ITEM % "",
    "/item_sub_page/s/A1/q/1/Features/{}": SUB,
    "/item_sub_page/s/A1/q/1/Reviews/{}": SUB,
    "/search_results/s/shir/1": results(),
    "/item_page/s/A5/q/2/{}": ITEM % "",
    "/done/s/A1/{}": DONE,
}


def visit(*actions, published=False, pages=PAGES, max_turns=10):
    """All that the world said, the last step, and the paths asked for by the last action."""
    shop = GivenPages(pages)

    async def main():
        env = WebShopEnv(shop, published=published, max_turns=max_turns)
        seen = await env.reset(task_of("s"), seed=3)
        step = None
        for action in actions:
            shop.asked.clear()
            step = await env.step(action)
            seen = step.observation or seen
        await env.close()
        return [message.content for message in seen.messages[::2]], step

    said, step = asyncio.run(main())
    return said, step, shop.asked


def last(*actions, published=False):
    return visit(*actions, published=published)[0][-1]


SEARCHED = (
    "\n[Back to Search] \nPage 1 \n[Next >] \n[A1] \nA1 it \n$1 \n[A2] \nA2 it \n$1 \n[A3] \nA3 it \n$1 "
)


def test_a_purchase():
    _, step, _ = visit("search[q]\n")
    assert (step.content, step.output) == ("search[q]", "search[q]\n")
    said, step, asked = visit("search[q]", "click[A1]", "click[Buy Now]")
    assert said[:2] == ["\nInstruction:  \nbuy it \n[Search] ", SEARCHED]
    assert said[-1] == "Your score (min 0.0, max 1.0): 0.5"
    assert (step.reward, step.terminated, step.truncated) == (0.5, True, False)
    assert step.stop_reason is StopReason.ENDED
    assert step.info == {"instruction": "buy it ", "bought": {"asin": "A1", "options": {}}}
    assert asked == ["/done/s/A1/{}"]


def test_turns_are_limited_and_the_last_one_counts():
    said, step, _ = visit("think[a]", "search[q]", max_turns=2)
    assert said[-1] == SEARCHED
    assert (step.reward, step.terminated, step.truncated) == (0.0, False, True)
    assert step.stop_reason is StopReason.TURN_LIMIT
    late = visit("think[a]", "search[q]", published=True, max_turns=2)[1]
    assert not late.over
    later = visit("think[a]", "search[q]", "click[A1]", published=True, max_turns=2)
    assert (later[1].truncated, later[1].reward, later[2]) == (True, 0.0, [])
    assert later[1].observation.messages[-1] == Message("user", CLOSED)


def test_options_show_as_selected_when_they_are():
    actions = ("search[q]", "click[A1]", "click[men's red]", "click[< Prev]", "click[A1]")
    assert last(*actions[:3]) == "You have clicked men's red."
    page = (*actions[:3], "click[Features]", "click[< Prev]")
    pages = PAGES | {"""/item_sub_page/s/A1/q/1/Features/{'color': "men's red"}""": SUB}
    assert "[[men's red]][blue]" in visit(*page, pages=pages)[0][-1]
    assert "[men's red][blue]" in visit(*page, pages=pages, published=True)[0][-1].replace("[[", "!")
    assert "[men's red][blue]" in last(*actions).replace("[[", "!")  # another look begins anew


def test_words_in_the_address_are_not_a_choice():
    item = ITEM % "<h4>color</h4><label>blue</label>"
    pages = PAGES | {
        "/search_results/s/a 'blue' one/1": results("A1"),
        "/item_page/s/A1/a 'blue' one/1/{}": item,
    }
    actions = ("search[a 'blue' one]", "click[A1]")
    assert "color [blue]" in visit(*actions, pages=pages)[0][-1]
    said = visit(*actions, pages=pages, published=True)[0]
    assert "color [[blue]]" in said[-1]


def test_talk_about_the_score_is_not_the_score():
    features = SUB.replace("soft", "Your score (min 0.0, max 1.0) is a secret")
    said, step, _ = visit(
        "search[q]",
        "click[A1]",
        "click[Features]",
        pages=PAGES | {"/item_sub_page/s/A1/q/1/Features/{}": features},
    )
    assert said[-1].endswith("is a secret ")
    assert step.reward == 0.0


INVALID = "Invalid action!"


@pytest.mark.parametrize(
    ("actions", "ours", "published"),
    [
        ("search[q] click[A4]", INVALID, "[Buy Now]"),  # not shown
        ("search[q] click[A1] click[<_Prev] click[A2] click[blue]", INVALID, "You have clicked blue."),
        ("search[q] click[A1] click[Reviews]", INVALID, "\nsoft "),  # no button of this page
        ("search[q] click[Next_>]", "[A5]", INVALID),
        ("search[q] click[Next_>] click[Next_>]", INVALID, INVALID),
        ("search[q] click[Next_>] click[<_Prev]", SEARCHED, INVALID),
        ("search[q] click[Next_>] click[A5] click[<_Prev]", "[A5]", INVALID),
        ("search[q] click[<_Prev]", INVALID, INVALID),
        ("click[Back_to_Search]", INVALID, INVALID),
        ("search[q] click[Back_to_Search]", "[Search]", "[Search]"),
        ("search[shirt", INVALID, "Page 1"),  # the published cut loses a character
    ],
)
def test_where_an_action_leads(actions, ours, published):
    for expected, version in ((ours, False), (published, True)):
        if version or "shirt" not in actions:
            said, _, asked = visit(*(one.replace("_", " ") for one in actions.split()), published=version)
            assert expected in said[-1]
            assert asked == [] or expected != INVALID


def test_a_click_on_nothing_is_invalid():
    for begun in [(), ("search[q]", "click[A1]", "click[Features]")]:
        assert visit(*begun, "click[nothing]")[2] == []
        assert last(*begun, "click[nothing]") == "Invalid action!"
        assert len(visit(*begun, "click[nothing]", published=True)[2]) == 1
        assert visit(*begun, "click[Buy Now]", published=True)[2] == []


@pytest.mark.parametrize(
    ("action", "asked"),
    [
        ("search[q", "q"), ("search[ q ]", "q"), ("search[q] and more", "q"), ("search[a/b]", "a b"),
        ("search[[x] y]", "[x] y"), ("search[rouge à lèvres 口紅]", "rouge à lèvres 口紅"),
        ("search[100% \"wool\" & 'silk'?#;..]", "100% \"wool\" & 'silk'?#;.."), ("search[\ud800x]", "?x"),
    ],
)  # fmt: skip
def test_what_is_searched_for(action, asked):
    page = f"/search_results/s/{asked}/1"
    assert visit(action, pages=PAGES | {page: results()})[2] == [page]


@pytest.mark.parametrize(
    "action",
    [
        "", "\n", "search", "search q", "search[]", "search[ ]", "search[!?/]", "Search[q]", "buy[A1]",
        "reset", "[q]", "click[]", "click[Search]", "click[A1]", "click[Next >]", "x" * 10_000,
        f"search[{'x' * 10_000}]", f"click[{'é' * 10_000}]", "поиск[q]", "\x00", "click[" * 1000,
    ],
)  # fmt: skip
def test_invalid_actions_change_nothing(action):
    said, step, asked = visit(action)
    assert (said[-1], asked) == ("Invalid action!", [])
    assert (step.reward, step.over) == (0.0, False)
    after = visit(action, "search[q]")
    assert after[0][-1] == SEARCHED


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("", "/search_results/s//1"), ("a/b", "/search_results/s/a/b/1"), ("a?b", "/search_results/s/a?b/1"),
        ("a#b", "/search_results/s/a"), ("..", "/search_results/1"),
        ("50% wool", "/search_results/s/50%25%20wool/1"), ("50%20wool", "/search_results/s/50%20wool/1"),
        ("[x] é", "/search_results/s/%5Bx%5D%20%C3%A9/1"), ("a&b=c;'d'", "/search_results/s/a&b=c;'d'/1"),
    ],
)  # fmt: skip
def test_the_published_client_quotes_as_requests_does(query, path):
    """Recorded with requests 2.34: what it sends for an address that was put together as text."""
    address = Address(PageKind.SEARCH, "s", query, raw=True)
    assert address.path == path
    assert replace(address, raw=False).path.count("/") == 4  # ours is quoted


@pytest.mark.parametrize("query", ["", "/", "?", "forest/green", "what?", "#1"])
async def test_published_queries_that_no_route_has_show_the_shops_error(query):
    """They are a turn, a request, and a page without products; the shop goes on."""
    env = WebShopEnv(LocalShop(EmbeddedShop(0, 50).get), published=True)
    await env.reset(task_of("fixed_1"), seed=0)
    lost = await env.step(f"search[{query}]")
    back = await env.step("click[Back to Search]")
    assert "Page 1" not in lost.observation.messages[-1].content
    assert lost.observation.messages[-1].content != "Invalid action!"
    assert not lost.over
    assert "[Search]" in back.observation.messages[-1].content


@pytest.mark.parametrize(
    ("page", "what"),
    [
        ("", "the button 'Back to Search' is missing"),
        ("NOT FOUND", "the button 'Back to Search' is missing"),
        ("<html>" + "<div>" * 5000 + "</b></i>&#xZZ;<!--", "the button 'Back to Search' is missing"),
        ("<html><button>Back to Search", "the button 'Buy Now' is missing"),
        (DONE.replace("\n", ""), "the button 'Back to Search' is missing"),
    ],
)
def test_a_page_that_no_shop_returns_ends_the_episode(page, what):
    pages = PAGES | {"/item_page/s/A1/q/1/{}": page}
    with pytest.raises(EpisodeError) as caught:
        visit("search[q]", "click[A1]", pages=pages)
    failure = caught.value.failure
    assert (caught.value.stop_reason, failure.kind) == (StopReason.WORLD_FAILED, "odd_page")
    assert failure.detail.startswith(f"/item_page/s/A1/q/1/{{}}: {what}; the page begins '{page[:20]}")
    visit("search[q]", "click[A1]", pages=pages, published=True)  # shown as it reads


@pytest.mark.parametrize("score", ["none", "", "nan", "<b></b>"])
def test_a_score_must_be_a_number(score):
    pages = PAGES | {"/done/s/A1/{}": DONE.replace("0.5", score)}
    for published in (False, True):
        with pytest.raises(EpisodeError, match=r"odd_page.*the score is no"):
            visit("search[q]", "click[A1]", "click[Buy Now]", pages=pages, published=published)


def test_backslashes_stay():
    pages = PAGES | {"/search_results/s/q/1": results(r"A\1")}
    assert r"[A\1]" in visit("search[q]", pages=pages)[0][-1]
    assert "[A\x01]" in visit("search[q]", pages=pages, published=True)[0][-1]
    pages = PAGES | {"/search_results/s/q/1": results(r"A\xe9", "é")}
    with pytest.raises(EpisodeError, match="cannot be decoded again"):
        visit("search[q]", pages=pages, published=True)


async def test_tasks_of_another_shop_are_refused():
    env = WebShopEnv(GivenPages(PAGES))
    with pytest.raises(DataError, match=r"'instruction' is not what the shop asks for.*buy it"):
        await env.reset(task_of("s", instruction="buy something else"), seed=0)
    await env.reset(task_of("s", instruction="buy it"), seed=0)
    with pytest.raises(DataError, match="'session' must be the name of a shop's session"):
        await env.reset(Task("t", "", "", "", {}, {}), seed=0)


def test_shop_by_hand():
    page = "\nInstruction:  \na [Search] box \n[Search] "
    assert ShopTranscript().render(dialogue(page, "search[box]", "Page 1 ")) == (
        "\nObservation:\n\nInstruction:  \na [Search] box \n[Search] "
        "\nAction:\nsearch[box]\nObservation:\nPage 1 \nInstruction:\na [Search] box "
    )
    assert ShopTranscript().render([RULES, *dialogue("Closed.")]) == "\nObservation:\nClosed."
    assert ShopTranscript().render([]) == ""


@pytest.mark.parametrize(
    ("page", "instruction"),
    [
        ("Instruction:  \na \n[Search] x \n[Search] ", "a \n[Search] x "),
        ("Instruction:\na \n[Search]", None),
        ("Instruction:  \na", None),
    ],
)
def test_the_instruction_of_a_start_page(page, instruction):
    assert shop_instruction(page) == instruction


@pytest.fixture
def golden(shared):
    return json.loads((shared / "goldens/archer/env_expected.json").read_text())["webshop"]


def test_shop_as_published(golden):
    """Pages and actions are cut out of the published texts; written again, they are the same texts."""
    seen = limits = 0
    for first, *turns in golden["transcripts"]:
        end = f"\nInstruction:\n{first['instruction']}"
        spoken = [Message("user", first["obs"].removeprefix("\nObservation:\n").removesuffix(end))]
        assert ShopTranscript().render(spoken) == first["obs"]
        before = first["obs"].removesuffix(end)
        for turn in turns:
            if not isinstance(turn.get("result"), list):
                continue
            text = turn["result"][0]
            action = turn["action"].removesuffix("\n")
            if text == before and turn["result"][1:] == [0.0, True]:  # the turn after the last
                closed = [*spoken, Message("assistant", action), Message("user", CLOSED)]
                assert ShopTranscript().render(closed) == text
                limits += 1
            if not text.endswith(end) or turn["result"][2]:
                break
            page = text.removeprefix(f"{before}\nAction:\n{action}\nObservation:\n").removesuffix(end)
            spoken += [Message("assistant", action), Message("user", page)]
            assert ShopTranscript().render(spoken) == text
            before = text.removesuffix(end)
            seen += 1
    assert seen > 10
    assert limits == 1


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
async def test_published_transcripts(golden, number, open_shop):
    first, *steps = golden["transcripts"][number]
    transcript = ShopTranscript().render

    async with open_shop(golden) as (shop, asked):
        env = WebShopEnv(shop, published=True)
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


async def test_what_the_published_client_crashes_at_is_an_invalid_action(golden):
    """An empty action and "reset" raise there."""
    assert golden["transcripts"][2][1]["result"].startswith("IndexError")
    assert golden["transcripts"][3][1]["result"].startswith("NotImplementedError")
    for action in ("", "reset"):
        env = WebShopEnv(GivenPages(golden["server_pages"]), published=True)
        await env.reset(task_of("fixed_2000"), seed=0)
        step = await env.step(action)
        assert step.observation.messages[-1].content == "Invalid action!"
        assert (step.reward, step.over) == (0.0, False)

"""Whoever is told hidden information says something else, or is asked something else, when it is another task's.

All else is the same: the request, the dialogue, the question. Models are behind a real server, which shows what they
were told.
"""

import asyncio
import json
import random

import pytest
from aiohttp import web

from sweet_rl.browsers import PageContext
from sweet_rl.mini.backend.human import ScriptedHuman
from sweet_rl.mini.cities.oracle import CityOracle
from sweet_rl.mini.objects.oracle import ObjectOracle
from sweet_rl.mini.repositories import Explorer
from sweet_rl.mini.repositories import thought as explore_thought
from sweet_rl.openai_client import OpenAIClient, RetryPolicy
from sweet_rl.preferences.ranking import context_of
from sweet_rl.prompts import load_prompt
from sweet_rl.serving import listening
from sweet_rl.types import Message, UserContext
from sweet_rl.users.model import OpenAIUser, VisionUser
from sweet_rl.worlds import load_tasks, world_of
from sweet_rl.worlds.alfworld.players import thought as household_thought
from sweet_rl.worlds.dangerous_taxi.data import play_taxi
from sweet_rl.worlds.dangerous_taxi.game import encode
from sweet_rl.worlds.dangerous_taxi.game import thought as taxi_thought
from sweet_rl.worlds.frontend_design.judging import VisionJudge
from tests.preferences.test_ranking import turn
from tests.users.test_model import page


def about(hidden, question):
    """What a human or an oracle is told of a dialogue of one question."""
    return UserContext("Help me.", hidden, (Message("user", "Help me."), Message("assistant", question)))


def asked(make, use):
    """What a model's server is sent when `use` asks what `make` makes of a client and an address."""
    bodies = []

    async def chat(request):
        bodies.append(await request.text())
        if request.path == "/run/predict":
            return web.json_response({"data": ["Yes"]})
        if request.path != "/v1/chat/completions":
            return web.json_response({"detail": "Not Found"}, status=404)
        choice = {"message": {"content": "Yes. VERDICT: FIRST"}, "finish_reason": "stop"}
        return web.json_response({"choices": [choice]})

    async def main():
        app = web.Application(client_max_size=2**26)
        app.router.add_route("*", "/{path:.*}", chat)
        async with listening(app, "127.0.0.1", 0) as port:
            url = f"http://127.0.0.1:{port}"
            it = make(OpenAIClient([f"{url}/v1"], retry=RetryPolicy(attempts=1)), url)
            try:
                await use(it)
            finally:
                await it.close()

    asyncio.run(main())
    return bodies[-1]


def human_by_text(hidden):
    prompt = load_prompt("human_simulator_code_prompt")
    body = asked(
        lambda client, _: OpenAIUser(client, "m", prompt_template=prompt),
        lambda human: human.reply(about(hidden, "What does it return?")),
    )
    assert json.dumps(hidden)[1:-1] in body
    return body


def human_with_eyes(color):
    context = PageContext("A bakery", "", (Message("user", "A bakery"),), page(color), page("white"))
    return asked(
        lambda client, _: VisionUser(client, "m", prompt_template="Answer."),
        lambda human: human.reply(context),
    )


def judge_of_pages(color):
    pictures = (page(color).image, page("white").image, page("black").image)
    return asked(
        lambda client, _: VisionJudge(client, "m", prompt="Which?"),
        lambda judge: judge.compare(*pictures, order="ab"),
    )


def oracle_on_a_server(game):
    def told(hidden):
        body = asked(
            lambda _, url: world_of(game).user.make_oracle("openai", f"{url}/v1", model="m"),
            lambda oracle: oracle.reply(about(hidden, "Is it big?")),
        )
        assert hidden in body
        return body

    return told


def oracle_behind_gradio(hidden):
    body = asked(
        lambda _, url: world_of("twenty_questions").user.make_oracle("gradio", url),
        lambda oracle: oracle.reply(about(hidden, "Is it big?")),
    )
    assert hidden in body
    return body


def scripted(user, question):
    return lambda hidden: asyncio.run(user.reply(about(hidden, question))).content


def critic(solution):
    row = turn("t", solution)
    assert context_of(row, with_ground_truth=False) == "P"
    return context_of(row, with_ground_truth=True)


def taxi_teacher(place):
    return taxi_thought(None, None, place, random.Random(0))


def taxi_hint(place):
    return play_taxi(0, [place], head_start=False)[0].hint


def household_teacher(plan):
    return household_thought("Your task is to: clean up.", ["look"], plan, None, random.Random(0))


def explorer(answer):
    """The teacher learns by opening a file whether it is the right one, and what it says depends on that."""
    explorer = Explorer("Which port is used?", [answer], seed=0)
    explorer.look("", [])
    explorer.read("config.md", "The port is 80.")
    return explore_thought(explorer.search(""), random.Random(0))


ADD, TIMES = (
    f"def f(a, b):\n    if a > {n}:\n        return b\n    return a {o} b" for n, o in ((1, "+"), (7, "*"))
)
RIGHT_HERE, FAR_AWAY = encode(0, 0, 0, 1), encode(0, 0, 3, 1)

TOLD = {
    "human by text": (human_by_text, ADD, TIMES),
    "human with eyes": (human_with_eyes, "red", "blue"),
    "judge of pages": (judge_of_pages, "red", "blue"),
    "oracle of objects on a server": (oracle_on_a_server("twenty_questions"), "dog", "piano"),
    "oracle of cities on a server": (oracle_on_a_server("guess_my_city"), "Oslo, Norway", "Rome, Italy"),
    "oracle behind gradio": (oracle_behind_gradio, "dog", "piano"),
    "scripted human": (scripted(ScriptedHuman(), "What does it return?"), ADD, TIMES),
    "oracle of objects": (scripted(ObjectOracle(), "Is it an animal?"), "dog", "piano"),
    "oracle of cities": (scripted(CityOracle(), "Which country is it in?"), "Paris, France", "Tokyo, Japan"),
    "critic": (critic, "dog", "piano"),
    "taxi's teacher": (taxi_teacher, RIGHT_HERE, FAR_AWAY),
    "taxi's teacher by a model": (taxi_hint, RIGHT_HERE, FAR_AWAY),
    "household's teacher": (household_teacher, ["take plate 1"], ["go to sink 1"]),
    "explorer's teacher": (explorer, "config.md", "README.md"),
}


@pytest.mark.parametrize("who", TOLD)
def test_another_tasks_hidden_information_changes_what_is_said(who):
    says, own, other = TOLD[who]
    assert says(own) == says(own)
    assert says(own) != says(other)


@pytest.mark.parametrize(
    ("tasks", "differs"),
    [
        ("mini:trades=3:test", True),
        ("mini-web:test", True),
        ("twenty-questions:test", True),
        ("guess-my-city:test", True),
        ("webshop:test", True),
        ("taxi:full:test", True),
        ("alfworld:test", True),
        ("lantern", False),
    ],
)
def test_what_a_critic_is_told_depends_on_the_task_but_in_adventures(tasks, differs):
    """docs/train_sweet.md says so: there a critic with hidden information knows no more than one without."""
    told = {
        context_of(turn("t", task.ground_truth), with_ground_truth=True) for task in load_tasks(tasks)[:20]
    }
    assert (len(told) > 1) == differs

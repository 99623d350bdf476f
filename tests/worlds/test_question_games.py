"""Twenty Questions and Guess My City: tasks, the published transcripts, the repaired rules, what goes wrong."""

import asyncio
import json
from collections import defaultdict

import pytest

from sweet_rl import rollout
from sweet_rl.errors import DataError, EpisodeError, UsageError
from sweet_rl.policies.scripted import ScriptedPolicy
from sweet_rl.records import task_from_row
from sweet_rl.rollout import Episode, RolloutStats
from sweet_rl.types import Failure, Message, StopReason, UserReply
from sweet_rl.worlds.guess_my_city import REFUSAL, GuessMyCityEnv, guess_my_city_tasks
from sweet_rl.worlds.question_games import QuestionTranscript, decode_question, words_of
from sweet_rl.worlds.twenty_questions import (
    INVALID_QUESTION,
    TEN_OBJECTS,
    TwentyQuestionsEnv,
    ask_for_object_template,
    ends_with_name,
    twenty_questions_tasks,
    yes_or_no,
)
from tests.worlds.playing import RULES, dialogue

OBJECTS = [task_from_row(row) for row in twenty_questions_tasks()]
TOWNS = [task_from_row(row) for row in guess_my_city_tasks()]
CITIES = [row["aliases"] for row in guess_my_city_tasks()]
BY_NAME = {task.ground_truth: task for task in (*OBJECTS, *TOWNS)}


@pytest.fixture(scope="module")
def golden(shared):
    return lambda name: json.loads((shared / f"goldens/archer/{name}.json").read_text())


@pytest.fixture(scope="module")
def expected(golden):
    return golden("env_expected")


def test_lists_are_the_published_ones(golden, expected):
    lists = golden("word_lists")
    names = [";".join(task.row["aliases"]) for task in OBJECTS]
    assert names == [entry.lower() for entry in lists["twenty_questions"]]
    by_category = defaultdict(list)
    for name, task in zip(names, OBJECTS, strict=True):
        by_category[task.row["category"]].append(name)
    assert by_category == {
        category: [entry.lower() for entry in entries]
        for category, entries in lists["twenty_questions_categories"].items()
    }
    assert list(TEN_OBJECTS) == lists["llm_subset_indices"]
    assert [task.ground_truth for task in TOWNS] == lists["guess_my_city"]
    called = [name for city in CITIES for name in city]
    assert len(called) == len(set(called)) == 91 + 23  # no two cities share a name
    ten = [row["aliases"] for row in twenty_questions_tasks("ten")]
    assert ten == expected["llm_twenty_questions"]["word_list"]


@pytest.mark.parametrize(
    ("tasks", "total", "held_out", "first", "wrong"),
    [
        (twenty_questions_tasks, 157, 31, ["volleyball", "cow", "apple"], "dev"),
        (guess_my_city_tasks, 91, 18, [], "ten"),
    ],
)
def test_splits_share_nothing_and_miss_nothing(tasks, total, held_out, first, wrong):
    """Those held out are part of what a result means: whoever changes them must say so."""
    train, test = tasks("train"), tasks("test")
    assert (len(tasks()), len(test)) == (total, held_out)
    assert sorted(row["task_id"] for row in train + test) == sorted(row["task_id"] for row in tasks())
    assert test == tasks("test")
    places = [int(row["task_id"].rpartition("/")[2]) for row in test]
    assert places == sorted(places)
    assert [row["ground_truth"] for row in test][: len(first)] == first
    with pytest.raises(UsageError, match=f":{wrong}' is no split"):
        tasks(wrong)


def test_the_instruction_names_the_words_and_leaves_room_for_the_game():
    template = ask_for_object_template()
    ten = [row["ground_truth"] for row in twenty_questions_tasks("ten")]
    assert template.count("{obs}") == 1
    assert template.count(", ".join(ten)) == 2
    assert '{"Question": "Your question?"}' in template
    assert decode_question(template.replace("{obs}", "")) == "Your question?"
    assert "{words}" not in template
    assert "one of these objects: cat, dog." in ask_for_object_template(["cat", "dog"])


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ([], ""),
        (["Questions:\n"], "Questions:\n"),
        (["Questions:\n", "Is it alive?", "Yes."], "Questions:\nIs it alive? Yes.\n"),
        (["Questions:\n", "", "No.", "Is it?"], "Questions:\n No.\nIs it?"),
    ],
)
def test_questions(said, text):
    assert QuestionTranscript().render(dialogue(*said)) == text
    assert QuestionTranscript().render([RULES, *dialogue(*said)]) == text


class Teller:
    """An oracle that says what it was told to say, and remembers what it was asked."""

    name = "teller"

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    async def reply(self, context):
        self.asked.append(context)
        answer = self.answers.pop(0) if self.answers else "No."
        return answer if isinstance(answer, UserReply) else UserReply(answer)

    async def close(self):
        pass


def play(world, task, actions):
    """All steps of a game."""

    async def main():
        await world.reset(task, seed=3)
        return [await world.step(action) for action in actions]

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("game", "world", "tasks", "horizons"),
    [
        ("twenty_questions", TwentyQuestionsEnv, OBJECTS, [20, 20, 20, 3, 20]),
        ("guess_my_city", GuessMyCityEnv, TOWNS, [20, 2, 20]),
    ],
)
def test_published_transcripts(expected, game, world, tasks, horizons):
    """To the character."""
    for (first, *turns), horizon in zip(expected[game]["transcripts"], horizons, strict=True):
        task = tasks[first["reset_idx"]]
        assert first["curr_word"] in (task.row["aliases"], task.hidden_information)
        env = world(Teller(*(turn["oracle_answer"] for turn in turns)), max_turns=horizon, compat="published")
        for turn, step in zip(turns, play(env, task, [turn["question"] for turn in turns]), strict=True):
            if turn["result"] is None:
                assert (step.observation, step.terminated) == (None, True)
                continue
            observation, reward, done = turn["result"]
            assert QuestionTranscript().render(step.observation.messages) == observation
            assert (step.reward, step.over) == (reward, done)


def test_published_tables(expected):
    for row in expected["twenty_questions"]["is_correct"]:
        world = TwentyQuestionsEnv(Teller("yes"), compat="published")
        (step,) = play(world, OBJECTS[row["word_idx"]], [row["question"]])
        assert step.terminated is row["is_correct"], row
    for row in expected["mistral"]["decode"]:
        assert decode_question(row["raw"]) == row["decoded"]


def test_published_games_of_the_ten_words(expected):
    """The instruction around the text is our own, so only lengths can be compared: what a turn adds."""
    (transcript,) = expected["llm_twenty_questions"]["transcripts"]
    first, *turns = transcript
    task = task_from_row(twenty_questions_tasks("ten")[first["reset_idx"]])
    assert task.row["aliases"] == first["curr_word"]
    oracle = Teller(*(turn["oracle_answer"] for turn in turns))
    questions = [turn["question"] for turn in turns]
    steps = play(TwentyQuestionsEnv(oracle, compat="published"), task, questions)
    template = ask_for_object_template()

    def length(messages):
        return len(template.replace("{obs}", QuestionTranscript().render(messages)))

    frame = first["obs"]["len"] - length([Message("user", "Questions:\n")])
    for turn, step in zip(turns, steps, strict=True):
        observation, reward, done = turn["result"]
        assert length(step.observation.messages) + frame == observation["len"]
        assert (step.reward, step.over) == (reward, done)


class Script(ScriptedPolicy):
    """Asks what it was told to ask."""

    name = "script"

    def _say(self, observation):
        return self.questions.pop(0)


def test_published_batch_of_two_games_in_our_loop(expected):
    batch = expected["batch_interact"]
    for slot, published in enumerate(batch["trajectories"]):
        oracle = Teller(*(answers[slot] for answers in batch["answers"]))
        world = TwentyQuestionsEnv(oracle, max_turns=batch["max_turns"], compat="published")
        policy = Script(chat_format=QuestionTranscript())
        policy.questions = [questions[slot] for questions in batch["plan"]]
        episode = Episode(OBJECTS[batch["env_idx"]], sample_index=slot, seed=0)
        game = asyncio.run(rollout.play(episode, world, policy, {}, RolloutStats()))
        turns = [message for message in game.dialogue_history if message.role == "assistant"]
        assert [(turn.input, turn.output, turn.reward) for turn in turns] == [
            (step["observation"], step["action"], step["reward"]) for step in published
        ]
        assert QuestionTranscript().render(game.dialogue_history) == published[-1]["next_observation"]
        assert game.reward == published[0]["trajectory_reward"]


def test_every_object_can_be_won_and_by_the_published_rule_all_but_seven():
    lost = []
    for task in OBJECTS:
        for name in task.row["aliases"]:
            (step,) = play(TwentyQuestionsEnv(Teller("Yes.")), task, [f"Is it a {name}?"])
            assert (step.terminated, step.reward, step.stop_reason) == (True, 0, StopReason.ENDED), name
        question = f"Is it a {task.ground_truth}?"
        (step,) = play(TwentyQuestionsEnv(Teller("Yes."), compat="published"), task, [question])
        if not step.terminated:
            lost.append(task.ground_truth)
    assert lost == [
        *("soccer ball", "golf ball", "tennis ball", "tennis racket", "baseball bat"),
        *("watering can", "lawn mower"),
    ]


@pytest.mark.parametrize(
    ("names", "right", "wrong"),
    [
        (
            "dog",
            'Is it a dog?|Is it a "dog"?|is it the DOG ?!|Is it dogs?|Is it a dog 5?',
            "Is it a doggy?|Is it a dog or a cat?|Is a dog bigger than it?|???|",
        ),
        ("soccer ball", "Is it a soccer ball?", "Is it a ball?"),
        ("lawn mower", "Is it a lawn-mower?|Is it a lawnmower?", "Is it a mower?"),
        ("motorcycle", "Is it a motor-cycle?", "Is it a motor?"),
        ("pants,pant,pair of pants", "Is it a pair of pants?", "Is it a pair?"),
        ("ring", "Is it a ring?", "Is it an earring?"),
        ("television,tv", "Is it a T.V.?", "Is it a t?"),
        ("diary", "Is it a diary?|Are they diaries?", "Are they diarys?"),
        ("knife", "Are they knives?", "Are they knive?"),
        ("key", "Are they keys?", "Are they keies?"),
        ("peach", "Are they peaches?", "Are they pea?"),
    ],
)
def test_naming_an_object(names, right, wrong):
    words = "sao paulos cafe its a motor cycle 2".split()
    assert words_of("São Paulo's café, «it's» a motor-cycle_2!") == words
    for questions, named in ((right, True), (wrong, False)):
        for question in questions.split("|"):
            assert ends_with_name(question, names.split(",")) is named, question


@pytest.mark.parametrize(
    ("meant", "published", "replies"),
    [
        ("Yes.", "Yes.", "yes|Yes, it is"),
        ("No.", "No.", "No.|It is not."),
        ("No.", INVALID_QUESTION, "It isn't."),
        (INVALID_QUESTION, "No.", "I don't know|I do not understand|I am not sure."),
        (INVALID_QUESTION, "Yes.", "Eyes are known"),
        ("No.", "Yes.", "No, although some say yes"),
        (INVALID_QUESTION, INVALID_QUESTION, "maybe|"),
    ],
)
def test_what_an_oracle_means(meant, published, replies):
    for reply in replies.split("|"):
        (step,) = play(TwentyQuestionsEnv(Teller(reply), compat="published"), BY_NAME["dog"], ["Is it red?"])
        heard = step.observation.messages[-1].content
        assert (yes_or_no(reply), heard) == (meant, published), reply


def test_the_end_of_a_game():
    """The right name counts only with a yes; the last question is answered; after it nothing happens."""
    oracle = Teller("No.", "Yes.")
    no, yes, after = play(TwentyQuestionsEnv(oracle), BY_NAME["airplane"], ["Is it a plane?\n"] * 3)
    assert [(step.terminated, step.reward) for step in (no, yes)] == [(False, -1), (True, 0)]
    assert (no.info, yes.info, yes.answer) == ({"solved": False}, {"solved": True}, "Is it a plane?")
    assert (after.observation, after.terminated, after.reward) == (None, True, None)
    assert oracle.asked[0].hidden_information == "airplane"  # of which the agent is told nothing
    assert oracle.asked[0].messages[-1] == Message("assistant", "Is it a plane?")
    assert "airplane" not in repr(no.observation)
    asked = ["Is it red?", "Is it hot?", "Is it big?", "Is it a dog?"]
    *_, last, after = play(TwentyQuestionsEnv(Teller(), max_turns=3), BY_NAME["dog"], asked)
    assert (last.terminated, last.truncated, last.stop_reason) == (False, True, StopReason.TURN_LIMIT)
    assert (last.reward, last.answer) == (-1, "No answer")
    assert [message.content for message in last.observation.messages[-2:]] == ["Is it big?", "No."]
    assert (after.observation, after.terminated, after.reward) == (None, True, None)


@pytest.mark.parametrize(
    ("action", "shown", "asked"),
    [
        ("", "", False),
        (" \n\n", "", False),
        ("\nIs it red?\nIs it blue?", "Is it red?", True),
        ("Is it red?\r\n", "Is it red?", True),
        ("Ist es grün? 🐕", "Ist es grün? 🐕", True),
        ("Is it \ud800?", "Is it ??", True),
        ("x" * 10_000, "x" * 500, False),
        ("x" * 500, "x" * 500, True),
    ],
)
@pytest.mark.parametrize(
    ("world", "refusal"), [(TwentyQuestionsEnv, INVALID_QUESTION), (GuessMyCityEnv, REFUSAL)]
)
def test_odd_actions_cost_a_turn_and_nothing_else(world, refusal, action, shown, asked):
    oracle = Teller("No.")
    task = BY_NAME["dog"] if world is TwentyQuestionsEnv else BY_NAME["London, UK"]
    (step,) = play(world(oracle), task, [action])
    assert (step.content, step.output, step.reward, step.over) == (shown, action, -1, False)
    assert step.observation.messages[-1].content == ("No." if asked else refusal)
    assert len(oracle.asked) == asked


def test_by_the_published_rules_every_action_is_asked_as_it_is():
    oracle = Teller("yes", "yes")
    first, second = play(
        TwentyQuestionsEnv(oracle, compat="published"), BY_NAME["dog"], ["Is it red?\n", "x" * 10_000]
    )
    assert QuestionTranscript().render(first.observation.messages) == "Questions:\nIs it red?\n Yes.\n"
    assert second.content == "x" * 10_000
    assert len(oracle.asked) == 2


def test_an_oracle_that_fails_ends_the_game_with_a_record():
    failed = UserReply("No response.", Failure("timeout", "after 5 s"))
    world = TwentyQuestionsEnv(Teller("Yes.", failed))
    with pytest.raises(EpisodeError) as caught:
        play(world, BY_NAME["dog"], ["Is it alive?", "Is it a dog?"])
    assert caught.value.stop_reason is StopReason.USER_FAILED
    assert (caught.value.failure.kind, caught.value.failure.turn) == ("timeout", 1)
    assert asyncio.run(world.step("Is it a dog?")).terminated


def test_a_model_that_writes_more_than_the_question():
    raw = '{\n"Question": "Is it a dog?",\n}'
    (step,) = play(TwentyQuestionsEnv(Teller("yes"), reads_json=True), BY_NAME["dog"], [raw])
    assert (step.content, step.output, step.terminated) == ("Is it a dog?", raw, True)
    assert step.observation.messages[1].content == "Is it a dog?"


@pytest.mark.parametrize(
    ("town", "right", "wrong"),
    [
        (
            "London, UK",
            "Is it London?|Do you live in LONDON, England?",
            "Is it Londonderry?|Is it London, Paris, Rome or Lima?|Is it Rome?",
        ),
        ("Bombay, India", "Is it Mumbai?|Is it Bombay, today's Mumbai?", "Is it Delhi?"),
        ("Sao Paulo, Brazil", "Is it São Paulo?", "Is it Paulo?"),
        ("Xian, China", "Is it Xi'an?", "Is it Xi?"),
        ("Pyong Yang, North Korea", "Is it Pyongyang?", "Is it Yang?"),
        ("Lima, Peru", "Is it Lima?", "What is the climate like?"),
        ("Delhi, India", "Is it New Delhi?", "Is it New?"),
        ("Singapore, Singapore", "Are you from Singapore, in Singapore?", "Is it in Asia?"),
    ],
)
def test_guessing_a_city(town, right, wrong):
    for questions, guessed in ((right, True), (wrong, False)):
        for question in questions.split("|"):
            (step,) = play(GuessMyCityEnv(Teller("Hm."), cities=CITIES), BY_NAME[town], [question])
            assert step.terminated is guessed, question


def test_an_answer_that_gives_the_city_away_is_not_given():
    answers = ["I live in London.", "Near Londonderry,\n I think.", "It was called Londres.", "x" * 600]
    steps = play(GuessMyCityEnv(Teller(*answers)), BY_NAME["London, UK"], ["Where?"] * 4)
    heard = [step.observation.messages[-1].content for step in steps]
    assert heard == [REFUSAL, "Near Londonderry, I think.", "It was called Londres.", "x" * 500]
    (step,) = play(GuessMyCityEnv(Teller("It is called Mumbai now")), BY_NAME["Bombay, India"], ["Name?"])
    assert step.observation.messages[-1].content == REFUSAL


def test_rows_made_elsewhere():
    row = {"problem_description": "Questions:\n", "ground_truth": "Oslo, Norway"}
    (step,) = play(GuessMyCityEnv(Teller("Yes.")), task_from_row(row), ["Is it Oslo?"])
    assert step.terminated
    with pytest.raises(DataError, match=r"'aliases' of the task .* must be a list of names"):
        play(TwentyQuestionsEnv(Teller()), task_from_row(row | {"aliases": "oslo"}), [])

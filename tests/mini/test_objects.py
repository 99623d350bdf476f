"""The embedded oracle of Twenty Questions: what it knows, what it understands, what it refuses."""

import asyncio
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweet_rl.errors import EpisodeError
from sweet_rl.mini.objects.language import SOFT, read_words, stem
from sweet_rl.mini.objects.oracle import INVALID, NO, YES, ObjectOracle, answer, facts, sections, understand
from sweet_rl.types import Message, StopReason, UserContext
from sweet_rl.worlds import load_tasks

TABLES = Path(__file__).parent / "tables"
WORDS = {"Yes": YES, "No": NO, "?": INVALID}


def listed(name):
    lines = (TABLES / name).read_text(encoding="utf-8").splitlines()
    return [tuple(line.split(" | ")) for line in lines if line and not line.startswith("#")]


def who(question):
    meaning = understand(question)
    return None if meaning is None else set(facts().names(meaning))


def test_the_objects_are_those_of_the_game_and_no_two_are_alike():
    things, rows = facts().things, [task.row for task in load_tasks("twenty-questions")]
    assert [(list(thing.aliases), thing.category) for thing in things] == [
        (row["aliases"], row["category"]) for row in rows
    ]
    assert len({thing.attributes for thing in things}) == len(things) == 157
    assert len({word for thing in things for word in thing.attributes}) > 100


@pytest.mark.parametrize(
    ("name", "right", "wrong"), [("held_out", 0.98, 0), ("fresh", 0.94, 0.02), ("third", 0.84, 0.05)]
)
def test_lists_of_questions_are_answered_fairly(name, right, wrong):
    cases = listed(f"objects_{name}.tsv")
    said = [(answer(thing, question), WORDS[fair]) for thing, question, fair in cases]
    assert sum(got == fair for got, fair in said) / len(cases) >= right
    assert sum(got not in (fair, INVALID) for got, fair in said) / len(cases) <= wrong


def test_every_object_knows_its_names_and_is_no_other():
    for thing in facts().things:
        for alias in thing.aliases:
            assert answer(thing.name, f"Is it a {alias}?") == YES
            assert answer(alias, f"Is it {alias.upper()}") == YES
    assert who("Is it a dog?") == {"dog"}
    assert who("Is it a keyboard?") == {"computer keyboard"}
    assert who("Is it a marker?") == {"marker", "sharpie"}
    assert who("Is it the sea?") == {"sea"}


def test_a_question_names_a_set():
    for question, members in listed("objects_sets.tsv"):
        assert who(question) == set(members.split(", ")) - {"nothing"}, question
    assert understand("Is it something other than a man-made thing, a plant or an animal?") is not None
    found = who("Is it used for eating?")
    assert {"knife", "spoon", "fork", "chopstick"} <= found
    assert not found & {"apple", "table", "dog"}


def test_negations():
    everything = set(facts().names(facts().everything))
    alive = who("Is it alive?")
    assert who("Isn't it alive?") == alive
    assert who("Is it not alive?") == everything - alive
    assert who("Is it non-living?") == who("Is it inanimate?") == everything - alive
    assert who("Is it something you can't eat?") == everything - who("Can you eat it?")
    assert who("Is it neither a fruit nor a vegetable?") == everything - who("Is it a fruit or a vegetable?")
    assert who("Is it a living thing other than an animal?") == alive - who("Is it an animal?")


def test_what_is_done_with_a_thing_is_not_done_to_it():
    assert not who("Do you cut with it?") & who("Do you cut it?")
    assert not who("Do you eat with it?") & who("Do you eat it?")
    assert (
        who("Is it used for writing?")
        == who("Do you write with it?")
        == {"pen", "pencil", "sharpie", "marker"}
    )
    assert who("Do you write on it?") == {"paper", "diary"}
    assert who("Does it eat meat?") == {"cat", "dog", "lion", "tiger", "bear"}
    assert who("Is it worn mostly by women?") < who("Do women wear it?")
    assert "pants" in who("Do women wear it?")


def test_sizes_are_compared():
    assert "truck" in who("Is it bigger than a car?")
    assert "car" not in who("Is it bigger than a car?")
    assert who("Is it larger than a breadbox?") > who("Is it larger than a house?")
    assert {"dog", "chair"} <= who("Is it bigger than a breadbox?")
    assert not {"pen", "banana"} & who("Is it bigger than a breadbox?")
    assert "piano" in who("Does it weigh more than 200 pounds?")
    assert "pencil" in who("Is it shorter than a foot?")
    assert "pen" in who("Does it fit in your pocket?")
    assert "football" in who("Would it fit in a backpack?")
    assert who("Is it taller than me?") == who("Is it taller than a person?") != set()
    assert who("Is it bigger than a frobnicator?") is None


@pytest.mark.parametrize(
    "question",
    [
        "Is it a dog?", "is it a dog", "IS IT A DOG???", "Is it a puppy?",
        "Hmm, okay. Is it a dog, then?", "So is the object you're thinking of a dog?",
        "Are you thinking of a dog?", "My guess is a dog.", "I think it's a dog", "It's a dog, right?",
        "Is it one of the dogs?", "a dog?", "dogs", '"Is it a dog?"', "  Is it a dog?\n",
    ],
)  # fmt: skip
def test_one_question_in_many_shells(question):
    assert who(question) == {"dog"}


@pytest.mark.parametrize(
    "question",
    [
        "", "?", "   ", "What is it?", "How big is it?", "Where would I find it?", "Is it?", "Yes",
        "Okay.", "Tell me the answer.", "Hello there", "Is it hot or cold?",
        "Is it alive or man-made or natural?", "Is it big or small?", "Is it a zorblax?",
        "Is it a red zorblax?", "Does it have a red handle?", "Is its handle red?",
        "Is it a dog? Is it a cat?", "\N{RED APPLE}", "это собака?", "x" * 10_000,
        "Is it a dog? " * 1000,
    ],
)  # fmt: skip
def test_what_is_not_understood_is_invalid(question):
    assert understand(question) is None
    assert answer("dog", question) == INVALID


@given(
    st.text(max_size=80)
    | st.lists(st.sampled_from([*sorted(SOFT), "dog", "not", "or", "made", "bigger"]), max_size=9).map(
        " ".join
    )
)
def test_any_text_has_one_of_three_answers(text):
    assert answer("dog", text) in (YES, NO, INVALID)


def test_the_oracle_is_a_user():
    async def ask(hidden, *said):
        roles = ("user", "assistant")
        messages = tuple(Message(roles[turn % 2], text) for turn, text in enumerate(said))
        return await ObjectOracle().reply(UserContext("Questions:\n", hidden, messages))

    reply = asyncio.run(ask("pair of pants", "Questions:\n", "Can you wear it?"))
    assert (reply.content, reply.failure) == ("Yes.", None)
    assert asyncio.run(ask("Dog", "Questions:\n", "Is it alive?", "Yes.", "Is it a cat?")).content == "No."
    assert asyncio.run(ask("dog")).content == "Invalid Question."
    with pytest.raises(EpisodeError, match="no object 'unicorn'") as caught:
        asyncio.run(ask("unicorn", "Questions:\n", "Is it alive?"))
    assert caught.value.stop_reason is StopReason.USER_FAILED


def test_the_phrase_files_name_only_words_of_the_table_and_say_something():
    bare = {stem(word) for word in ("use", "make", "have", "find", "with", "for", "on", "up", "out", "off")}
    for heading, lines in (*sections("words.txt"), *sections("deeds.txt")):
        for line in lines:
            left, _, right = line.partition(" = ")
            if heading == "names":
                assert left in facts().places, left
                continue
            facts().evaluate(left)
            for phrase in right.split(","):
                left_over = [word for word in re.findall(r"[^\W_]+", phrase.lower()) if word not in SOFT]
                assert [stem(word) for word in left_over] not in [[word] for word in bare], phrase


def test_expressions_and_sizes():
    table = facts()
    assert set(table.names(table.evaluate("feline&pet|canine"))) == {"cat", "dog"}
    assert set(table.names(table.evaluate("feline&!pet"))) == {"lion", "tiger"}
    assert table.evaluate("none") == 0
    assert table.things[table.places["apple"]].size.length_cm < 20


def test_stems_join_forms_and_keep_words_apart():
    assert {stem(word) for word in ("cut", "cuts", "cutting")} == {stem("cut")}
    assert {stem(word) for word in ("write", "writes", "writing", "wrote", "written")} == {stem("write")}
    assert stem("leaves") == stem("leaf")
    assert stem("batteries") == stem("battery")
    apart = (
        *("ear", "earring", "car", "care", "hat", "hate", "pin", "pine", "ring", "string", "paint"),
        *("painting",),
    )
    assert len({stem(word) for word in apart}) == len(apart)
    words = read_words("Well, isn't it a dog or something?")
    assert [word.text for word in words] == ["is", "it", "a", "dog"]

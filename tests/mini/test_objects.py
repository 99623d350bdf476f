"""Twenty Questions without a model: what the oracle knows, understands and refuses; how well scripted players play."""

import asyncio
import re
from itertools import combinations
from pathlib import Path
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweet_rl.errors import EpisodeError, UsageError
from sweet_rl.interface import asimulate
from sweet_rl.mini.objects.asker import BestAsker, ObjectAsker, guess, least_cost, questions_about
from sweet_rl.mini.objects.language import SOFT, read_words, stem
from sweet_rl.mini.objects.oracle import INVALID, NO, YES, ObjectOracle, answer, facts, sections, understand
from sweet_rl.types import AgentTurn, Message, Observation, StopReason, UserContext
from sweet_rl.worlds import load_tasks, world_of
from sweet_rl.worlds.options import AgentRequest

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


def test_negations_and_what_is_done_with_a_thing_is_not_done_to_it():
    everything = set(facts().names(facts().everything))
    alive = who("Is it alive?")
    assert who("Isn't it alive?") == alive
    assert who("Is it not alive?") == everything - alive
    assert who("Is it non-living?") == who("Is it inanimate?") == everything - alive
    assert who("Is it something you can't eat?") == everything - who("Can you eat it?")
    assert who("Is it neither a fruit nor a vegetable?") == everything - who("Is it a fruit or a vegetable?")
    assert who("Is it a living thing other than an animal?") == alive - who("Is it an animal?")

    assert not who("Do you cut with it?") & who("Do you cut it?")
    assert not who("Do you eat with it?") & who("Do you eat it?")
    pens = {"pen", "pencil", "sharpie", "marker"}
    assert who("Is it used for writing?") == who("Do you write with it?") == pens
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
    def ask(hidden, *said):
        return asyncio.run(ObjectOracle().reply(UserContext("Questions:\n", hidden, observe(*said).messages)))

    reply = ask("pair of pants", "Questions:\n", "Can you wear it?")
    assert (reply.content, reply.failure) == ("Yes.", None)
    assert ask("Dog", "Questions:\n", "Is it alive?", "Yes.", "Is it a cat?").content == "No."
    assert ask("dog").content == "Invalid Question."
    with pytest.raises(EpisodeError, match="no object 'unicorn'") as caught:
        ask("unicorn", "Questions:\n", "Is it alive?")
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


def test_expressions_and_stems():
    """Stems join the forms of a word and keep words apart."""
    table = facts()
    assert set(table.names(table.evaluate("feline&pet|canine"))) == {"cat", "dog"}
    assert set(table.names(table.evaluate("feline&!pet"))) == {"lion", "tiger"}
    assert table.evaluate("none") == 0
    assert table.things[table.places["apple"]].size.length_cm < 20

    assert {stem(word) for word in ("cut", "cuts", "cutting")} == {stem("cut")}
    assert {stem(word) for word in ("write", "writes", "writing", "wrote", "written")} == {stem("write")}
    assert stem("leaves") == stem("leaf")
    assert stem("batteries") == stem("battery")
    apart = "ear earring car care hat hate pin pine ring string paint painting".split()
    assert len({stem(word) for word in apart}) == len(apart)
    words = read_words("Well, isn't it a dog or something?")
    assert [word.text for word in words] == ["is", "it", "a", "dog"]


# ---- players

TEN, SIXTEEN = "twenty-questions:ten", "twenty-questions:sixteen"
TEN_WORDS, SIXTEEN_WORDS = ([task.ground_truth for task in load_tasks(source)] for source in (TEN, SIXTEEN))
FOUR = questions_about(SIXTEEN_WORDS)
ALL = [thing.name for thing in facts().things]


def games(name, source=SIXTEEN, repeats=1, **how):
    world = world_of("twenty_questions")

    async def played():
        agent = await world.make_agent(AgentRequest(name=name, tasks=load_tasks(source), **how))
        return await asimulate("twenty_questions", source, agent=agent, repeats=repeats, seed=3)

    return asyncio.run(played())


def mean_return(played):
    return fmean(game.reward for game in played)


def said(game):
    return [turn.content for turn in game.dialogue_history if isinstance(turn, AgentTurn)]


def observe(*said, seed=0):
    roles = ("user", "assistant")
    return Observation("t", tuple(Message(roles[turn % 2], text) for turn, text in enumerate(said)), seed)


def act(policy, observation):
    return asyncio.run(policy.act(observation)).completion.text


def test_every_object_is_found_and_few_words_sooner_and_later_with_less_skill():
    played = games("asker", "twenty-questions")
    assert [game.stop_reason for game in played] == [StopReason.ENDED] * 157
    assert -8 < mean_return(played) < -6
    played = games("asker", TEN, repeats=10)
    assert all(game.stop_reason is StopReason.ENDED for game in played)
    assert -3.6 < mean_return(played) < -2.4
    assert len({sentence for game in played for sentence in said(game)}) <= 60
    assert mean_return(games("asker", TEN, repeats=5, skill=0.5)) < mean_return(played) - 1


def test_it_reads_the_transcript_depends_on_the_observation_alone_and_names_a_word_in_the_last_turn():
    policy = ObjectAsker(["dog", "pen", "cup"], system_prompt="Play.")
    generation = asyncio.run(policy.act(observe("Questions:\n", "Is it alive?", "No.")))
    assert generation.input == "Questions:\nIs it alive? No.\n"
    assert generation.completion.text in {"Is it a pen?", "Is it a cup?"}

    policy = ObjectAsker(ALL)
    first, again = ([act(policy, observe("Questions:\n", seed=seed)) for seed in range(30)] for _ in range(2))
    assert first == again
    assert len(set(first)) > 1
    assert act(ObjectAsker(ALL, max_turns=1, skill=0.0), observe("Questions:\n")) in map(guess, ALL)


@pytest.mark.parametrize(
    ("dialogue", "left"),
    [
        (["Is it alive?", "Yes.", "Is it an animal?", "No.", "Is it soft?", "Yes."], {"dog", "cat"}),
        (["Is it a dog?", "No.", "Is it a cat?", "No."], {"pen"}),
        (["Is it alive?", "Invalid Question.", "Is it a pen?", "No."], {"dog", "cat"}),
    ],
)
def test_a_wrong_answer_does_not_end_the_search(dialogue, left):
    policy = ObjectAsker(["dog", "cat", "pen"])
    assert act(policy, observe("Questions:\n", *dialogue)) in set(map(guess, left))


def test_all_its_questions_are_understood_its_guesses_solve_and_four_tell_sixteen_words_apart():
    for wording in (wording for wordings in questions_about(ALL) for wording in wordings):
        assert answer("dog", wording) in (YES, NO), wording
    for name in ALL:
        assert answer(name, guess(name)) == YES
        assert guess(name).endswith(f"{name}?")
    assert guess("apple") == "Is it an apple?"
    assert guess("pants") == "Is it pants?"

    rows = {tuple(answer(word, wordings[0]) for wordings in FOUR) for word in SIXTEEN_WORDS}
    assert len(rows) == len(SIXTEEN_WORDS) == 16
    assert all(set(row) <= {YES, NO} for row in rows)


def test_the_best_play_is_as_good_in_games_as_it_was_computed_and_is_refused_where_it_is_not_known():
    assert BestAsker(SIXTEEN_WORDS).mean_return == -3.5 == -least_cost(16)
    assert act(BestAsker(["dog", "pen"]), observe("Questions:\n", guess("dog"), NO)) == guess("pen")
    played = games("best")
    assert mean_return(played) == -3.5
    assert {game.stop_reason for game in played} == {StopReason.ENDED}
    for words, turns in (([], 20), (["dog", "pen"], 1), ([str(n) for n in range(21)], 30)):
        with pytest.raises(UsageError, match="The best play is known for 1 to 20 words and as many turns"):
            BestAsker(words, max_turns=turns)


def test_a_name_fits_where_no_answer_rules_it_out():
    best, metal = BestAsker(SIXTEEN_WORDS), FOUR[0][0]
    yes = [word for word in SIXTEEN_WORDS if answer(word, metal) == YES]
    no = [word for word in SIXTEEN_WORDS if answer(word, metal) == NO]
    assert best.fits([], guess(yes[0])) is None  # nothing is ruled out
    assert best.fits([(guess(no[0]), NO)], guess(yes[0])) is None  # but what was named
    assert best.fits([(metal, YES)], metal) is None  # no name
    assert best.fits([(metal, YES)], guess(yes[0])) is True
    assert best.fits([(metal, YES)], guess(no[0])) is False
    assert best.fits([(metal, YES), (guess(yes[0]), NO)], guess(yes[0])) is False  # named before
    named = [(guess(word), NO) for word in no]
    assert best.fits([*named, (metal, YES)], guess(yes[0])) is None  # the answer tells what names had told


def all_costs(left, asked):
    """Every way to play on, without bounds: by hand what `BestAsker` computes."""
    if len(left) == 1:
        return 0.0
    found = [(len(left) - 1) / len(left) * (1 + all_costs(left - {word}, asked)) for word in left]
    for question in asked:
        yes = frozenset(word for word in left if answer(word, question) == YES)
        if yes and left - yes:
            parts = [len(part) / len(left) * all_costs(part, asked) for part in (yes, left - yes)]
            found.append(1 + sum(parts))
    return min(found)


def test_bounds_leave_no_better_play_out():
    questions = ["Is it alive?", "Can you eat it?", "Is it made of metal?"]
    for words in list(combinations(TEN_WORDS, 5))[::25]:
        best = BestAsker(words)
        best._yes = {one: yes for one, yes in best._yes.items() if one in (*questions, *map(guess, words))}
        assert -best.mean_return == pytest.approx(all_costs(frozenset(words), questions))


def test_naming_words_in_order_and_saying_anything_are_floors():
    played = games("namer")
    assert mean_return(played) == -7.5  # of 0 to -15
    assert said(played[2]) == [guess(word) for word in SIXTEEN_WORDS[:3]]
    assert -13.5 < mean_return(games("random", repeats=10)) < -11


def test_a_hasty_player_asks_in_some_games_and_only_names_words_in_the_others():
    played = games("hasty", repeats=20)
    questions = {wording for wordings in FOUR for wording in wordings}
    asked = [game for game in played if questions.intersection(said(game))]
    assert len(asked) / len(played) == pytest.approx(0.3, abs=0.06)
    assert mean_return(asked) > -4
    named = [game for game in played if game not in asked]
    assert mean_return(named) == pytest.approx(-7.5, abs=1)
    assert all(len(set(said(game))) == len(said(game)) for game in named)
    soonest = sorted(played, key=lambda game: -game.reward)[: len(played) // 10]
    assert not [game for game in soonest if game in asked]  # what a filter by return would imitate
    assert mean_return(games("hasty", skill=1.0)) > -4

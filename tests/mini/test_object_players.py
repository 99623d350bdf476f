"""Scripted players of Twenty Questions at play with the embedded oracle: how well, by what, and how not."""

import asyncio
from itertools import combinations
from statistics import fmean

import pytest

from sweet_rl.errors import UsageError
from sweet_rl.interface import asimulate
from sweet_rl.mini.objects.asker import BestAsker, ObjectAsker, guess, least_cost, questions_about
from sweet_rl.mini.objects.oracle import NO, YES, answer, facts
from sweet_rl.types import AgentTurn, Message, Observation, StopReason
from sweet_rl.worlds import load_tasks, world_of
from sweet_rl.worlds.options import AgentRequest

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


def test_what_it_reads_is_the_transcript():
    policy = ObjectAsker(["dog", "pen", "cup"], system_prompt="Play.")
    generation = asyncio.run(policy.act(observe("Questions:\n", "Is it alive?", "No.")))
    assert generation.input == "Questions:\nIs it alive? No.\n"
    assert generation.completion.text in {"Is it a pen?", "Is it a cup?"}


def test_it_depends_on_the_observation_alone_and_the_last_turn_names_a_word():
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


def test_all_its_questions_are_understood_and_its_guesses_solve():
    for wording in (wording for wordings in questions_about(ALL) for wording in wordings):
        assert answer("dog", wording) in (YES, NO), wording
    for name in ALL:
        assert answer(name, guess(name)) == YES
        assert guess(name).endswith(f"{name}?")
    assert guess("apple") == "Is it an apple?"
    assert guess("pants") == "Is it pants?"


def test_four_questions_tell_the_sixteen_words_apart():
    rows = {tuple(answer(word, wordings[0]) for wordings in FOUR) for word in SIXTEEN_WORDS}
    assert len(rows) == len(SIXTEEN_WORDS) == 16
    assert all(set(row) <= {YES, NO} for row in rows)


def test_the_best_play_is_as_good_in_games_as_it_was_computed():
    assert BestAsker(SIXTEEN_WORDS).mean_return == -3.5 == -least_cost(16)
    assert act(BestAsker(["dog", "pen"]), observe("Questions:\n", guess("dog"), NO)) == guess("pen")
    played = games("best")
    assert mean_return(played) == -3.5
    assert {game.stop_reason for game in played} == {StopReason.ENDED}


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


def test_the_best_play_is_refused_where_it_is_not_known():
    for words, turns in (([], 20), (["dog", "pen"], 1), ([str(n) for n in range(21)], 30)):
        with pytest.raises(UsageError, match="The best play is known for 1 to 20 words and as many turns"):
            BestAsker(words, max_turns=turns)

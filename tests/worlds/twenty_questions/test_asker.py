"""The scripted asker of Twenty Questions, at play with the embedded oracle."""

import asyncio

import pytest

from sweet_rl.errors import UsageError
from sweet_rl.mini.objects.asker import BASIC, MORE, ObjectAsker, guess
from sweet_rl.mini.objects.oracle import YES, ObjectOracle, answer, facts
from sweet_rl.rollout import Episode, RolloutStats, play
from sweet_rl.types import Message, Observation, StopReason, Task, derive_seed
from sweet_rl.worlds.twenty_questions.world import TwentyQuestionsEnv, twenty_questions_tasks


def tasks(split):
    return [
        Task(
            row["task_id"],
            row["problem_description"],
            row["ground_truth"],
            row["hidden_information"],
            {},
            row,
        )
        for row in twenty_questions_tasks(split)
    ]


def games(split, *, repeats=1, **settings):
    chosen = tasks(split)
    policy = ObjectAsker(answer, [task.hidden_information for task in chosen], **settings)

    async def all_of_them():
        return [
            await play(
                Episode(task, sample, derive_seed(7, task.task_id, sample)),
                TwentyQuestionsEnv(ObjectOracle()),
                policy,
                {},
                RolloutStats(),
            )
            for sample in range(repeats)
            for task in chosen
        ]

    return asyncio.run(all_of_them())


def mean_return(played):
    return sum(game.reward for game in played) / len(played)


def observe(*said, seed=0):
    roles = ("user", "assistant")
    return Observation("t", tuple(Message(roles[turn % 2], text) for turn, text in enumerate(said)), seed)


def act(policy, observation):
    return asyncio.run(policy.act(observation))


def test_every_object_is_found():
    played = games("")
    assert [game.stop_reason for game in played] == [StopReason.ENDED] * 157
    assert -8 < mean_return(played) < -6


def test_the_ten_words_are_found_sooner_from_few_sentences():
    played = games("ten", repeats=10)
    assert all(game.stop_reason is StopReason.ENDED for game in played)
    assert -3.6 < mean_return(played) < -2.4
    said = {
        message.content for game in played for message in game.dialogue_history if message.role == "assistant"
    }
    assert len(said) <= 60


def test_less_skill_is_worse():
    assert mean_return(games("ten", repeats=5, skill=0.5)) < mean_return(games("ten", repeats=5)) - 1


def test_what_it_reads_is_the_transcript():
    policy = ObjectAsker(answer, ["dog", "pen", "cup"], system_prompt="Play.")
    generation = act(policy, observe("Questions:\n", "Is it alive?", "No."))
    assert generation.input == "Questions:\nIs it alive? No.\n"
    assert generation.completion.text in {"Is it a pen?", "Is it a cup?"}


def test_it_depends_on_the_observation_alone():
    policy = ObjectAsker(answer, [thing.name for thing in facts().things])
    first = [act(policy, observe("Questions:\n", seed=seed)).completion.text for seed in range(30)]
    assert first == [act(policy, observe("Questions:\n", seed=seed)).completion.text for seed in range(30)]
    assert len(set(first)) > 1


def test_a_wrong_answer_does_not_end_the_search():
    policy = ObjectAsker(answer, ["dog", "cat", "pen"])
    contradictory = observe(
        "Questions:\n", "Is it alive?", "Yes.", "Is it an animal?", "No.", "Is it soft?", "Yes."
    )
    assert act(policy, contradictory).completion.text in {"Is it a dog?", "Is it a cat?"}
    denied = observe("Questions:\n", "Is it a dog?", "No.", "Is it a cat?", "No.")
    assert act(policy, denied).completion.text == "Is it a pen?"
    invalid = observe("Questions:\n", "Is it alive?", "Invalid Question.", "Is it a pen?", "No.")
    assert act(policy, invalid).completion.text in {"Is it a dog?", "Is it a cat?"}


def test_the_last_turn_names_a_word():
    words = [thing.name for thing in facts().things]
    policy = ObjectAsker(answer, words, max_turns=1, skill=0.0)
    assert act(policy, observe("Questions:\n")).completion.text in {guess(word) for word in words}


def test_all_its_questions_are_understood_and_its_guesses_solve():
    for wordings in BASIC + MORE:
        for wording in wordings:
            assert answer("dog", wording) in ("Yes.", "No."), wording
    for thing in facts().things:
        assert answer(thing.name, guess(thing.name)) == YES
        assert guess(thing.name).endswith(f"{thing.name}?")
    assert guess("apple") == "Is it an apple?"
    assert guess("pants") == "Is it pants?"


@pytest.mark.parametrize(("words", "skill"), [([], 1.0), (["dog"], 1.5), (["dog"], -0.1)])
def test_bad_settings_are_refused(words, skill):
    with pytest.raises(UsageError, match="skill from 0 to 1"):
        ObjectAsker(answer, words, skill=skill)

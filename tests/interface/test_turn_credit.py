"""Credit for anyone's dialogues: the same numbers as of files, by hand, from messages of every form."""

import math

import pytest

import sweet_rl
from sweet_rl.errors import DataError, UsageError
from sweet_rl.preferences.trajectory_pairs import with_solution
from sweet_rl.records import load_trajectories, replace_rows
from tests.commands.test_credit import recorded_rows
from tests.commands.test_step_stages import plain_mean
from tests.tiny_models import save_tiny_gpt2, save_tiny_llama, tiny_tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("critic")
    save_tiny_llama(folder / "critic", seed=1)
    save_tiny_llama(folder / "policy", seed=0)
    replace_rows(folder / "run.jsonl", recorded_rows())
    return folder


@pytest.fixture(scope="module")
def critic(folder):
    return sweet_rl.Critic(folder / "critic", reference_model=folder / "policy")


@pytest.fixture(scope="module")
def episodes(folder):
    return load_trajectories(folder / "run.jsonl")


def chat(episode):
    """The dialogue as other tools have it: roles and contents."""
    return [{"role": message.role, "content": message.content} for message in episode.dialogue_history]


def test_the_numbers_are_those_of_a_credit_file(folder, critic, episodes):
    ours = sweet_rl.credit(episodes, folder / "critic", reference_model=folder / "policy")
    told = [episode.task.ground_truth for episode in episodes]
    given = {
        "rows": [episode.dialogue_history for episode in episodes],
        "chat": [chat(one) for one in episodes],
    }
    for form, dialogues in given.items():
        assert critic.credit_many(told, dialogues) == [
            [pytest.approx(turn.hidden.advantage, abs=1e-5) for turn in turns] for turns in ours
        ], form
        assert critic.credit_many([None] * 3, dialogues) == [
            [pytest.approx(turn.without_hidden.advantage, abs=1e-5) for turn in turns] for turns in ours
        ], form


def test_by_hand_and_without_a_template_of_prompts(folder, critic, episodes):
    """Prompts are rendered by the critic's chat template, the system message first; an end token closes a turn."""
    messages = [{"role": "system", "content": "Be brief."}, *chat(episodes[0])]
    tokenizer = tiny_tokenizer()
    prompt = tokenizer.apply_chat_template(messages[:4], tokenize=False, add_generation_prompt=True)
    ids = [*tokenizer("What 1?", add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
    said = plain_mean(folder / "critic", with_solution(prompt, "7"), ids)
    reference = plain_mean(folder / "policy", prompt, ids)
    assert critic.credit("7", messages)[1] == pytest.approx(said - reference, abs=1e-4)
    (views,) = critic.views(["7"], [messages])
    assert (views[1].critic, views[1].reference) == (
        pytest.approx(said, abs=1e-4),
        pytest.approx(reference, abs=1e-4),
    )


def test_the_papers_advantage_tells_the_reference_too(folder, episodes):
    paper = sweet_rl.Critic(folder / "critic", reference_model=folder / "policy", advantage="paper")
    said, turn = paper.credit("7", chat(episodes[0]))[0], episodes[0].dialogue_history[1]
    ids = list(turn.token_ids)
    both = [plain_mean(folder / one, with_solution(turn.input, "7"), ids) for one in ("critic", "policy")]
    assert said == pytest.approx(both[0] - both[1], abs=1e-4)


def test_sampled_tokens_and_log_probabilities_that_a_message_brings(folder, episodes):
    """Tokens of the critic's tokenizer are scored as they were sampled; others' texts are tokenised."""
    own = sweet_rl.Critic(folder / "critic")
    tokenizer = tiny_tokenizer()
    letters = [tokenizer.convert_tokens_to_ids(letter) for letter in "list"]
    assert tokenizer("list", add_special_tokens=False)["input_ids"] != letters
    prompt = tokenizer.apply_chat_template(chat(episodes[0])[:1], tokenize=False, add_generation_prompt=True)
    said = {"role": "assistant", "content": "list", "logprobs": [-0.5] * 4, "finish_reason": "length"}
    for ids, scored in (
        (letters, letters),
        ([5] * 4, tokenizer("list", add_special_tokens=False)["input_ids"]),
    ):
        (found,) = own.credit("7", [*chat(episodes[0])[:1], said | {"token_ids": ids}])
        wanted = plain_mean(folder / "critic", with_solution(prompt, "7"), scored)
        assert found == pytest.approx(wanted + 0.5, abs=1e-4)
    with pytest.raises(UsageError, match="No turn has log-probabilities"):
        own.credit("7", chat(episodes[0]))


def test_hidden_information_moves_the_credit_and_none_is_none(critic, episodes):
    one, other, none = (critic.credit(told, chat(episodes[0])) for told in ("7", "8", None))
    assert len({one[0], other[0], none[0]}) == 3
    assert critic.credit_many(["7", None, "8"], [chat(episodes[0])] * 3) == [
        [pytest.approx(value, abs=1e-5) for value in values] for values in (one, none, other)
    ]
    assert critic.credit("7", [{"role": "user", "content": "Hi"}]) == []


def test_a_turn_without_a_score_is_none_and_says_why(critic, episodes):
    long = {"role": "assistant", "content": "no " * 600}
    (views,) = critic.views(["7"], [[*chat(episodes[0]), {"role": "user", "content": "So?"}, long]])
    assert [view.why for view in views] == ["", "", "too_long"]
    assert views[2].advantage is None


def test_what_a_number_depends_on_is_said(folder, critic):
    assert critic.facts["critic"].startswith("sha256:")
    assert critic.facts["critic"] != critic.facts["reference"]
    again = sweet_rl.Critic(folder / "critic").facts
    assert again == {"critic": critic.facts["critic"], "reference": None, "advantage": "released"}


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([{"role": "tool", "content": "4"}], r"dialogues\[0\]\[0\]' has calls of tools"),
        ([{"role": "assistant", "content": "", "tool_calls": [{}]}], "has calls of tools"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "part that is no text"),
        (["Hi"], "must be a message"),
        ([{"role": "human", "content": "Hi"}], "must be system, user or assistant"),
        ([{"role": "user", "content": None}], "must be a string"),
        ([{"role": "assistant", "content": "Hi", "token_ids": "12"}], "must be a list of numbers"),
    ],
)
def test_what_is_no_dialogue_of_texts_is_refused(critic, messages, words):
    with pytest.raises(DataError, match=words):
        critic.credit(None, messages)


def test_parts_of_text_are_one_text(critic, episodes):
    parts = chat(episodes[0])
    parts[0]["content"] = [{"type": "text", "text": "Write "}, {"type": "text", "text": "0."}]
    assert critic.credit("7", parts) == critic.credit("7", chat(episodes[0]))


def test_what_does_not_belong_together_is_refused(folder, critic, episodes, tmp_path):
    with pytest.raises(UsageError, match="1 pieces of hidden information for 2 dialogues"):
        critic.credit_many(["7"], [chat(episodes[0])] * 2)
    with pytest.raises(UsageError, match="needs a reference_model"):
        sweet_rl.Critic(folder / "critic", advantage="paper")
    bare = sweet_rl.Critic(save_tiny_gpt2(tmp_path / "gpt2"), reference_model=folder / "policy")
    with pytest.raises(UsageError, match="has no chat template"):
        bare.credit("7", chat(episodes[0]))
    assert math.isfinite(bare.credit("7", episodes[0].dialogue_history)[0])  # which bring their prompts

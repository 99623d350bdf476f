"""Credit on tokens: rows of exactly what was sampled, credit on each turn, as a file that other trainers read."""

import json
from dataclasses import replace

import pytest

from sweet_rl.credit.commands import score
from sweet_rl.errors import DataError, UsageError
from sweet_rl.integrations.export import export_credit
from sweet_rl.integrations.tokens import agent_turns, centred, on_tokens, runs, token_rows
from sweet_rl.preferences.ranking import encoding_by
from sweet_rl.records import replace_rows, trajectory_to_row
from sweet_rl.types import AgentTurn
from tests.commands.test_step_stages import rows_of
from tests.integrations.credit import episode, episodes, hidden
from tests.tiny_models import save_tiny_gpt2, tiny_tokenizer


@pytest.mark.parametrize("cut", [False, True])
def test_a_row_is_what_was_sampled_and_what_stood_between(cut):
    one, tokenizer = episode(0, 0, cut=cut), tiny_tokenizer()
    (row,) = token_rows(one, tokenizer)
    first, _, second = one.dialogue_history[1:]
    assert row.turns == [0, 1]
    assert tokenizer.decode(row.prompt_ids) == first.input
    said = tokenizer.decode(second.token_ids)
    assert tokenizer.decode(row.prompt_ids + row.response_ids) == second.input + said
    between = len(row.response_ids) - len(first.token_ids) - len(second.token_ids)
    assert row.mask == [1] * len(first.token_ids) + [0] * between + [1] * len(second.token_ids)
    assert tuple(row.response_ids[: len(first.token_ids)]) == first.token_ids
    assert row.logprobs == [*first.logprobs, *[0.0] * between, *second.logprobs]
    assert between > 5


def test_a_prompt_that_does_not_begin_with_what_was_said_begins_a_row():
    one, tokenizer = episode(0, 0), tiny_tokenizer()
    *before, last = one.dialogue_history
    other = replace(last, input=last.input.replace("What should", "So what should"))
    rows = token_rows(replace(one, dialogue_history=(*before, other)), tokenizer)
    assert [row.turns for row in rows] == [[0], [1]]
    assert tokenizer.decode(rows[1].prompt_ids) == other.input
    assert tuple(rows[1].response_ids) == last.token_ids


def test_a_critic_reads_in_tokens_what_it_reads_in_dialogues(critic):
    some, tokenizer = episodes(), tiny_tokenizer()
    encoding = encoding_by(tokenizer)
    rows = [token_rows(one, tokenizer)[0] for one in some]
    taken = [agent_turns(row.prompt_ids, row.response_ids, row.mask, encoding) for row in rows]
    played = [[turn for turn in one.dialogue_history if isinstance(turn, AgentTurn)] for one in some]
    ids_in, ids_there = ([[turn.token_ids for turn in turns] for turns in each] for each in (taken, played))
    assert ids_in == ids_there
    ours = critic.credit_many(hidden(some), [one.dialogue_history for one in some])
    assert critic.credit_many(hidden(some), taken) == ours


@pytest.mark.parametrize(
    ("turn", "words"),
    [
        (lambda one: replace(one, token_ids=None), "has no token ids"),
        (lambda one: replace(one, token_ids=(5, 6)), "are not its text in the tokenizer"),
        (lambda one: replace(one, token_ids=(10**9,)), "are not its text in the tokenizer"),
    ],
)
def test_tokens_that_are_missing_or_anothers_are_refused(turn, words):
    one = episode(0, 0)
    first, said, *rest = one.dialogue_history
    with pytest.raises(UsageError, match=words):
        token_rows(replace(one, dialogue_history=(first, turn(said), *rest)), tiny_tokenizer())


def test_a_special_token_within_a_turn_is_its_own():
    tokenizer, one = tiny_tokenizer(), episode(0, 0)
    first, said, *_ = one.dialogue_history
    odd = (said.token_ids[0], tokenizer.convert_tokens_to_ids("<|header|>"), *said.token_ids[1:])
    history = (first, replace(said, token_ids=odd, logprobs=None))
    (row,) = token_rows(replace(one, dialogue_history=history), tokenizer)
    assert (tuple(row.response_ids), row.logprobs) == (odd, None)


def test_turns_are_runs_of_ones():
    assert runs([1, 1, 0, 1, 0, 0]) == [(0, 2), (3, 4)]
    assert runs([0, 0]) == []
    assert on_tokens([0.5, None], [1, 1, 0, 1, 0]) == ([0.5, 0.5, 0.0, 0.0, 0.0], [1, 1, 0, 0, 0])
    with pytest.raises(UsageError, match="1 values for 2 turns"):
        on_tokens([0.5], [1, 0, 1])


def test_credit_is_compared_within_a_task():
    assert centred([[1.0, 2.0], [None, 6.0], [5.0]], ["a", "a", "b"]) == [[-2.0, -1.0], [None, 3.0], [0.0]]
    assert centred([[None]], ["a"]) == [[None]]


def test_a_file_of_credit_becomes_columns(folder, rows, tmp_path, capsys):
    some = episodes()
    replace_rows(tmp_path / "run.jsonl", map(trajectory_to_row, some))
    scores, output = tmp_path / "credit.jsonl", tmp_path / "rows.jsonl"
    flags = {"critic": str(folder / "critic"), "reference_model": str(folder / "reference")}
    score(tmp_path / "run.jsonl", output_path=scores, **flags, quiet=True)
    export_credit(tmp_path / "run.jsonl", scores, output, tokenizer=str(folder / "policy"))
    assert "8 turns of 4 dialogues are in" in capsys.readouterr().out
    found = rows_of(output)
    for row, wanted in zip(found, rows, strict=True):
        for name in ("credit", "advantages"):
            assert row[name] == pytest.approx(wanted[name], abs=1e-5)
        assert all(row[name] == wanted[name] for name in ("task_id", "sample_index", "env_mask"))
    for task in ("t0", "t1"):  # each turn once, less the mean of the task's
        of_task = [row for row in found if row["task_id"] == task]
        first = [row["advantages"][at] for row in of_task for at, _ in runs(row["env_mask"])]
        assert sum(first) == pytest.approx(0, abs=1e-6)
        assert max(map(abs, first)) > 0.01


def test_a_credit_file_must_have_every_turn_as_it_is(folder, tmp_path):
    some = episodes(1, 1)
    saved, scores, output = (tmp_path / f"{name}.jsonl" for name in ("run", "credit", "out"))
    replace_rows(saved, map(trajectory_to_row, some))
    score(saved, critic=str(folder / "critic"), output_path=scores, hidden=True, quiet=True)
    rows, tokenizer = rows_of(scores), str(folder / "policy")
    for kept, words, more in (
        (rows[:1], "has no row for turn 1", {}),
        ([rows[0], rows[1] | {"turn_digest": "0"}], "is of another text than turn 1", {}),
        (rows, "has no score 'without_hidden' for turn 0", {"without_hidden": True}),
    ):
        replace_rows(scores, kept)
        with pytest.raises((UsageError, DataError), match=words):
            export_credit(saved, scores, output, tokenizer=tokenizer, **more)
    with pytest.raises(DataError, match="'turn_digest' is not there"):
        export_credit(saved, saved, output, tokenizer=tokenizer)
    replace_rows(scores, [rows[0], {**rows[1], "hidden": {"advantage": None, "why": "too_long"}}])
    with pytest.raises(UsageError, match="are not its text in the tokenizer"):
        export_credit(saved, scores, output, tokenizer=str(other_tokenizer(tmp_path)))
    export_credit(saved, scores, output, tokenizer=tokenizer)
    (row,) = rows_of(output)
    assert row["credit"][1] is None
    assert json.dumps(row["advantages"][-1]) == "0.0"
    with pytest.raises(UsageError, match=r"must end with \.jsonl"):
        export_credit(saved, scores, tmp_path / "out.csv", tokenizer=tokenizer)


def other_tokenizer(folder):
    """A model whose tokenizer has the same tokens by other numbers."""
    path = save_tiny_gpt2(folder / "gpt2")
    place = path / "tokenizer.json"
    content = json.loads(place.read_text())
    vocab = content["model"]["vocab"]
    letters = sorted((name for name in vocab if "<" not in name), key=vocab.get)
    vocab |= dict(zip(letters, [vocab[name] for name in letters[1:] + letters[:1]], strict=True))
    place.write_text(json.dumps(content))
    return path

"""Dialogues by their sampled tokens, for other people's trainers."""

from sweet_rl.credit.check import findings_of, read_row
from sweet_rl.records import task_from_row
from sweet_rl.types import AgentTurn, FinishReason, Message, Trajectory
from tests.conftest import ROOT
from tests.docs.test_tutorials import blocks
from tests.tiny_models import tiny_tokenizer

SAID = ("What should it return?", "A list.", "Which numbers?", "An empty list counts.")


def sampled(messages, text, tokenizer, *, cut=False):
    """A turn as a model in this process leaves it."""
    asked = [{"role": one.role, "content": one.content} for one in messages]
    given = tokenizer.apply_chat_template(asked, tokenize=False, add_generation_prompt=True)
    ids = tokenizer(text, add_special_tokens=False)["input_ids"] + ([] if cut else [tokenizer.eos_token_id])
    why = FinishReason.LENGTH if cut else FinishReason.STOP
    logprobs = tuple(-0.1 * place for place in range(len(ids)))
    return AgentTurn("assistant", text, given, text, tuple(ids), logprobs, why)


def episode(number, repeat, *, turns=2, cut=False):
    """One dialogue of a task; what is said depends on both numbers."""
    tokenizer, history = tiny_tokenizer(), [Message("user", f"Write {number}.")]
    for turn in range(turns):
        said = sampled(history, SAID[(number + repeat + turn) % 4], tokenizer, cut=cut)
        history += [said, Message("user", "Yes.")]
    task = {"problem_description": f"Write {number}.", "ground_truth": f"def f(): {number}"}
    task = task_from_row(task | {"task_id": f"t{number}"})
    return Trajectory(task, tuple(history[:-1]), None, sample_index=repeat)


def episodes(tasks=2, repeats=2):
    return [episode(number, repeat) for number in range(tasks) for repeat in range(repeats)]


def hidden(some):
    return [one.task.ground_truth for one in some]


def findings(rows, **more):
    """What `credit check` finds in rows of a trainer."""
    read = [one for line, row in enumerate(rows, 1) for one in read_row(line, row, "rows.jsonl")]
    return findings_of(read, **more)


def changed(rows, factor):
    """Rows whose credit has become something else."""
    return [row | {"credit": [factor(value) for value in row["credit"]]} for row in rows]


def shown(title):
    """What the file of this title on the page defines."""
    (block,) = (one for one in blocks(ROOT / "docs/export_and_credit.md") if one.title == title)
    found = {}
    exec(block.text, found)
    return found

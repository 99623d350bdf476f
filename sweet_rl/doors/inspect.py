"""Every world as a task of inspect_ai: `inspect eval sweet_rl/world -T world=WORLD --model MODEL`.

The solver is the conversation with the world and its human; scores are the reward, whether the goal was
reached, and the turns that it took. A sample's store has the episode as a row of our own files.
"""

from __future__ import annotations

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    ContentReasoning,
    ContentText,
)
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver

from sweet_rl.doors.choice import WorldChoice, by_fields
from sweet_rl.doors.inspect_samples import ROW
from sweet_rl.doors.opened import SharedWorld, tasks_of
from sweet_rl.records import trajectory_to_row
from sweet_rl.types import AgentTurn, Message

_KINDS = {"system": ChatMessageSystem, "user": ChatMessageUser, "assistant": ChatMessageAssistant}


@task
@by_fields
def world(choice: WorldChoice) -> Task:
    """Any world; see `WorldChoice`."""
    played, some = tasks_of(choice)
    samples = [Sample(id=one.task_id, input=one.problem_description) for one in some]
    name = f"{played.name} {choice.tasks or played.test_tasks}"
    return Task(MemoryDataset(samples, name=name), solver=conversation(choice), scorer=earned())


@solver
def conversation(choice: WorldChoice) -> Solver:
    """The model and the world talk until the episode is over; one that fails is an error."""
    shared = SharedWorld(choice)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        async with (
            shared.open() as opened,
            opened.episode(str(state.sample_id), state.epoch - 1) as episode,
        ):
            state.messages = [theirs(one) for one in episode.prompt]
            over = False
            while not over:
                state = await generate(state)
                turn = await episode.step(state.output.completion)
                over = turn.over
                if turn.text:
                    state.messages.append(ChatMessageUser(content=turn.text))
        state.store.set("turn_rewards", episode.rewards)
        state.store.set("succeeded", episode.succeeded)
        state.store.set(ROW, trajectory_to_row(episode.trajectory))
        return state

    return solve


@scorer(metrics={"*": [mean(), stderr()]})
def earned() -> Scorer:
    """What the conversation earned; no score where a limit of inspect's ended it first."""

    async def score(state: TaskState, target: Target) -> Score:
        rewards = state.store.get("turn_rewards")
        if rewards is None:
            return Score.unscored()
        values: dict[str, float] = {"reward": sum(rewards), "turns": len(rewards)}
        if (succeeded := state.store.get("succeeded")) is not None:
            values["success"] = float(succeeded)
        row = state.store.get(ROW)
        details = {"turn_rewards": rewards, "stop_reason": row["stop_reason"]}
        return Score(value=values, answer=row["answer"], metadata=details)

    return score


def theirs(message: Message) -> ChatMessage:
    """A message of ours, thoughts included."""
    thoughts = message.thoughts if isinstance(message, AgentTurn) else None
    if thoughts is None:
        return _KINDS[message.role](content=message.content)
    parts = [ContentReasoning(reasoning=thoughts), ContentText(text=message.content)]
    return _KINDS[message.role](content=parts)

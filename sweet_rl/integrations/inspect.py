"""Every world as a task of inspect_ai (`inspect eval sweet_rl/world -T world=WORLD --model MODEL`), and `.eval` logs.

Scores are the reward, whether the goal was reached, and the turns. A sample's store has the episode as a row
of our own files; hidden solutions are in a log as a sample's target, which no model is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from zipfile import BadZipFile

from inspect_ai import Task, task
from inspect_ai import log as logs
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    ContentReasoning,
    ContentText,
    ModelOutput,
)
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver

from sweet_rl.integrations.logs import ROW, no_log, trajectories_in
from sweet_rl.integrations.worlds import SharedWorld, WorldChoice, by_fields, tasks_of
from sweet_rl.records import trajectory_to_row
from sweet_rl.types import AgentTurn, Message, Trajectory

_KINDS = {"system": ChatMessageSystem, "user": ChatMessageUser, "assistant": ChatMessageAssistant}


@task
@by_fields
def world(choice: WorldChoice) -> Task:
    """Any world; see `WorldChoice`."""
    played, some = tasks_of(choice)
    samples = [Sample(id=one.task_id, input=one.problem_description) for one in some]
    name = f"{played.name} {choice.tasks or played.tasks.test}"
    return Task(MemoryDataset(samples, name=name), solver=conversation(choice), scorer=earned())


@solver
def conversation(choice: WorldChoice) -> Solver:
    """The model and the world talk until the episode is over; one that fails is an error."""
    shared = SharedWorld(choice)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        async with shared.open() as opened, opened.episode(str(state.sample_id), state.epoch - 1) as episode:
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


def write_log(trajectories: Sequence[Trajectory], path: Path) -> None:
    """Write trajectories as one log."""
    models = sorted({str(one.provenance.get("agent_model", "unknown")) for one in trajectories})
    ids = list(dict.fromkeys(one.task.task_id for one in trajectories))
    rewards = [one.reward for one in trajectories if one.reward is not None]
    mean = {"mean": logs.EvalMetric(name="mean", value=sum(rewards) / len(rewards))} if rewards else {}
    earned = logs.EvalScore(name="reward", scorer="earned", scored_samples=len(rewards), metrics=mean)
    log = logs.EvalLog(
        status="success",
        eval=logs.EvalSpec(
            created=datetime.now(UTC).isoformat(),
            task="sweet_rl/world",
            dataset=logs.EvalDataset(name="sweet_rl", samples=len(ids), sample_ids=ids),
            model=", ".join(models),
            config=logs.EvalConfig(epochs=1 + max((one.sample_index for one in trajectories), default=0)),
        ),
        results=logs.EvalResults(
            total_samples=len(trajectories), completed_samples=len(rewards), scores=[earned]
        ),
        samples=[sample_of(one, models[0]) for one in trajectories],
    )
    logs.write_eval_log(log, path)


def read_log(path: Path) -> list[Trajectory]:
    """The trajectories of a log in the packed format, `.eval`."""
    try:
        log = logs.read_eval_log(path, resolve_attachments=True)
    except (ValueError, KeyError, EOFError, BadZipFile) as error:
        raise no_log(path, error) from error
    return trajectories_in(log.model_dump(mode="python"), path)


def sample_of(one: Trajectory, model: str) -> logs.EvalSample:
    """A trajectory as a sample of a log; `model` is the log's."""
    said = next((m.content for m in reversed(one.dialogue_history) if m.role == "assistant"), "")
    score = Score(value={"reward": one.reward}, answer=one.answer) if one.reward is not None else None
    why = None if one.error is None else str(one.error)
    return logs.EvalSample(
        id=one.task.task_id,
        epoch=one.sample_index + 1,
        input=one.task.problem_description,
        target=one.task.ground_truth,
        messages=[theirs(message) for message in one.dialogue_history],
        output=ModelOutput.from_content(model, said),
        scores=None if score is None else {"earned": score},
        error=None if why is None else logs.EvalError(message=why, traceback=why, traceback_ansi=why),
        store={ROW: trajectory_to_row(one)},
    )

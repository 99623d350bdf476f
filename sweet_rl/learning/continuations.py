"""What comes of a turn: an episode is played again up to there, and then on, by a policy, as often as asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

from sweet_rl.contracts import Env, Policy, User
from sweet_rl.errors import DataError
from sweet_rl.rollout import Episode, RolloutStats, rollout
from sweet_rl.thoughts import split_thoughts
from sweet_rl.types import (
    AgentTurn,
    Completion,
    FinishReason,
    Generation,
    Trajectory,
    UserContext,
    UserReply,
    derive_seed,
)


def states_of(trajectory: Trajectory) -> list[Episode]:
    """The states of an episode: before its first turn, after it, and so on; the last one is its end.

    Raises:
        DataError: its row does not say with which seed the world was played.
    """
    seed = trajectory.provenance.get("seed")
    if not isinstance(seed, int):
        raise DataError(
            f"The episode {trajectory.task.task_id!r} does not record its seed (provenance.seed), so its world cannot "
            "be replayed. Play it with simulate."
        )
    said = [_said(turn) for turn in trajectory.dialogue_history if isinstance(turn, AgentTurn)]
    at = Episode(trajectory.task, trajectory.sample_index, seed)
    return [replace(at, said=tuple(said[:turns])) for turns in range(len(said) + 1)]


def _said(turn: AgentTurn) -> Generation:
    """A recorded turn as it was given to the loop."""
    inside = split_thoughts(turn.output, turn.input)[1]
    ended, thoughts = turn.finish_reason or FinishReason.OTHER, turn.thoughts if inside is None else None
    completion = Completion(turn.output, turn.token_ids, turn.logprobs, ended, thoughts)
    return Generation(turn.input, completion, turn.reflection, turn.reflection_input)


async def continuations(
    states: Sequence[Episode],
    policy: Policy,
    n: int | Sequence[int],
    *,
    make_env: Callable[[], Env],
    seed: int = 0,
    concurrency: int = 256,
    first: Sequence[int] | None = None,
    stats: RolloutStats | None = None,
) -> list[list[Trajectory]]:
    """Play on `n` times from each state (`states_of`), with draws of the policy that are independent.

    The world keeps the seed of the episode, and so does what it knows. A turn's worth is the mean return after it
    minus that before it.

    Args:
        states: states of episodes; a turn that was not taken is tried by adding it to `said`.
        n: how often, from each state or from all.
        make_env: makes the world of an episode. Where a model plays the human, open the world with a `Remembering` one.
        seed: another one draws others.
        first: how often each state was played on before: the draws that follow are new ones.
        stats: running totals, of this call and others.

    Returns:
        The whole episodes of each state, in order; failed ones are among them.

    Raises:
        SweetRLError: as `rollout`. That a world says again what it had said is looked at by `check_replay`.
    """
    times = [n] * len(states) if isinstance(n, int) else list(n)
    begun, played = first or [0] * len(states), dict[int, Trajectory]()
    each = zip(states, times, begun, strict=True)
    chosen = [(state, skip + repeat) for state, many, skip in each for repeat in range(many)]
    episodes = [
        replace(state, sample_index=place, draws=derive_seed(seed, state.seed, len(state.said), repeat, bits=63))
        for place, (state, repeat) in enumerate(chosen)
    ]  # fmt: skip

    async def keep(trajectory: Trajectory) -> None:
        played[trajectory.sample_index] = trajectory

    how: dict[str, Any] = {"make_env": make_env, "policy": policy, "concurrency": concurrency, "stats": stats}
    await rollout(episodes, on_finished=keep, **how)
    ends = [0, *accumulate(times)]
    return [[played[place] for place in range(start, end)] for start, end in pairwise(ends)]


def check_replay(recorded: Trajectory, again: Iterable[Trajectory], turns: int) -> None:
    """Raise a DataError unless what was played again begins as it was recorded, up to the answer to its last turn given."""
    taken = [place for place, one in enumerate(recorded.dialogue_history) if isinstance(one, AgentTurn)]
    until = taken[:turns][-1] + 2 if taken[:turns] else 1
    wanted = [one.content for one in recorded.dialogue_history[:until]]
    for one in again:
        found = [message.content for message in one.dialogue_history[: len(wanted)]]
        if not one.failed and found != wanted:
            place = next(n for n, (old, new) in enumerate(zip(wanted, found, strict=False)) if old != new)
            raise DataError(
                f"Replaying {one.task.task_id!r} gave a different episode: message {place} was {wanted[place]!r:.120}, and "
                f"played again with the same seed it is {found[place]!r:.120}. An Env must draw only from the seed of `reset`."
            )


class Remembering:
    """A human who says again what it said in recorded episodes; where it was not asked yet, another one answers."""

    def __init__(self, user: User, recorded: Iterable[Trajectory]) -> None:
        self.name, self._user, self._said = user.name, user, dict[tuple[str, ...], str]()
        for trajectory in recorded:
            said: tuple[str, ...] = (trajectory.task.hidden_information,)
            for before, message in pairwise(trajectory.dialogue_history):
                said = (*said, before.content)
                if before.role == "assistant":
                    self._said[said] = message.content

    async def reply(self, context: UserContext) -> UserReply:
        """The reply of the record, or the other's."""
        said = (context.hidden_information, *(message.content for message in context.messages))
        known = self._said.get(said)
        return await self._user.reply(context) if known is None else UserReply(known)

    async def close(self) -> None:
        """Close the other one."""
        await self._user.close()

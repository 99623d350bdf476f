"""What methods of credit assignment say that a turn was worth, each in one function.

Those of `GROUPED` read the rewards of a task's repeats and cost nothing; those of `READING` ask models about texts, and
most of them score turns that were not taken, too. A value is a number, or the key of `WHY` where there is none. An
equation that was not read at its source is marked "our reading".
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, replace
from functools import partial
from itertools import accumulate, compress, zip_longest
from math import fsum
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from sweet_rl import tracking
from sweet_rl.cli.servers import client_of
from sweet_rl.commands.rank_best_of_n import ScorerFlags, scorer_of
from sweet_rl.errors import ServiceError, UsageError
from sweet_rl.preferences import credit
from sweet_rl.preferences.candidates import Candidate, Candidates
from sweet_rl.preferences.credit import Reader, Value, Values, View, digest_of, own_turns
from sweet_rl.preferences.pairs import TurnKey, key_fields
from sweet_rl.preferences.ranking import Model, encoding_of, with_others_solutions
from sweet_rl.prompts import dialogue_string, fill, load_prompt
from sweet_rl.types import AgentTurn, Json, Message, Trajectory

if TYPE_CHECKING:
    from sweet_rl.openai_client import OpenAIClient

WHY: Mapping[str, str] = credit.WHY | {
    "no_reward": "the episode has no reward: grade the file first",
    "one_repeat": "the task was played only once: the method compares repeats (--repeats 4, for example)",
    "no_solution": "the task has no hidden solution",
    "no_reply": "nothing was said after the turn, or what was said is not in the next prompt",
    "not_taken": "the method needs what came after a turn, and this one was not taken",
    "no_verdict": "the world's oracle says nothing about this turn",
    "no_number": "the judge gave no number from 0 to 10",
    "same_solution": "all tasks have the same hidden solution",
    "no_messages": "the file does not hold the dialogue before the turn",
}
"""Why a turn has no score, in words."""


class Steps(NamedTuple):
    """An episode by turns: what each was rewarded with, and the state that it was taken in."""

    rewards: tuple[float, ...]
    states: tuple[str, ...]


Group: TypeAlias = Sequence[Steps]  # two or more repeats of a task


def outcome(group: Group, gamma: float = 1.0) -> list[list[float]]:
    """The outcome for every turn: A_it = R_i - mean_j R_j.

    GRPO's outcome supervision (DeepSeekMath, arXiv 2402.03300) without the division by the standard deviation, as in
    Dr. GRPO (arXiv 2503.20783). R_i is the sum of the episode's rewards. Our reading.
    """
    returns = [fsum(one.rewards) for one in group]
    return [[value - fmean(returns)] * len(one.rewards) for value, one in zip(returns, group, strict=True)]


def grpo(group: Group, gamma: float = 1.0) -> list[list[float]]:
    """The same over the group's standard deviation: A_it = (R_i - mean_j R_j) / std_j R_j (arXiv 2402.03300).

    Our reading: the sample's standard deviation, as TRL and verl have it; 0 where all outcomes are equal.
    """
    spread = stdev(fsum(one.rewards) for one in group)
    return [[value / spread if spread > 1e-9 else 0.0 for value in own] for own in outcome(group)]


def mt_grpo_biased(group: Group, gamma: float = 1.0) -> list[list[float]]:
    """MT-GRPO (arXiv 2505.11821) as it is usually extended to many turns: each turn's reward less the mean of that turn.

    A_it = sum_{l=t..T_i} gamma^(l-t) (r_il - mean_{j: T_j >= l} r_jl). Our reading, without the division by standard
    deviations. It is biased where the agent decides when to stop (verl#7244): the baseline has as many terms as the
    episode has turns, so what another turn earns on average is taken away from whoever takes it.
    """
    columns = zip_longest(*(one.rewards for one in group))
    means = [fmean(value for value in column if value is not None) for column in columns]
    left = ([reward - mean for reward, mean in zip(one.rewards, means, strict=False)] for one in group)
    return [returns_to_go(rewards, gamma) for rewards in left]


def mt_grpo(group: Group, gamma: float = 1.0) -> list[list[float]]:
    """The same without the bias: A_it = G_it - mean_j G_jt, with the return from turn t on, G_it = sum_l gamma^(l-t) r_il.

    An episode that has ended earns 0, and all repeats share one baseline, whatever their length. Our reading of the
    repair that verl#7244 asks for.
    """
    returns = [returns_to_go(one.rewards, gamma) for one in group]
    means = [fsum(column) / len(group) for column in zip_longest(*returns, fillvalue=0.0)]
    return [[value - mean for value, mean in zip(own, means, strict=False)] for own in returns]


def gigpo(group: Group, gamma: float = 1.0) -> list[list[float]]:
    """GiGPO (arXiv 2505.10978): A_it = (R_i - mean_j R_j) + (G_it - mean of G over all turns taken in the same state).

    Our reading, with both weights and both normalisers 1 (the paper's F_norm may be 1); the first part was read as
    quoted by ms-swift's documentation. A state is what the agent was shown; at the first turn all repeats share it. A
    turn whose state comes once has the first part alone.
    """
    returns, found = [returns_to_go(one.rewards, gamma) for one in group], defaultdict[str, list[float]](list)
    for one, own in zip(group, returns, strict=True):
        for state, value in zip(one.states, own, strict=True):
            found[state].append(value)
    parts = zip(outcome(group), returns, (one.states for one in group), strict=True)
    return [[a + g - fmean(found[state]) for a, g, state in zip(*own, strict=True)] for own in parts]


def returns_to_go(rewards: Sequence[float], gamma: float) -> list[float]:
    """The return from each turn on."""
    return [*accumulate(reversed(rewards), lambda later, reward: reward + gamma * later)][::-1]


GROUPED = {one.__name__: one for one in (outcome, grpo, mt_grpo, mt_grpo_biased, gigpo)}


class Asked(NamedTuple):
    """A turn to be scored: its candidates (one that was taken is the only one), and what came before and after it.

    `reply` is what was said after a turn that was taken, `following` the agent's next one.
    """

    turn: Candidates
    before: tuple[Message, ...] = ()
    reply: str | None = None
    following: Candidates | None = None
    taken: bool = True


class Desk(Reader):
    """What methods read with: models by their roles (critic, reference, blind, agent), a judge, other tasks' solutions.

    `views` are what a critic and its reference said of turns, by `hidden` and `without_hidden`.
    """

    flags: Any
    scorers: ScorerFlags
    judge: OpenAIClient
    solutions: Mapping[str, str]  # by task that of another one; none where all are the same
    views: dict[str, list[list[View]]]
    archer: tuple[Any, Callable[[Asked], str]] | None = None  # its critic, and what that observes

    @classmethod
    async def open(
        cls, names: Mapping[str, str | None], flags: Any, scorers: ScorerFlags, turns: Sequence[Candidates], stack: AsyncExitStack
    ) -> Desk:  # fmt: skip
        """With the models of these names; a UsageError for a policy that is none, or a critic of another tokenizer."""
        opened, critics = dict[str, Model](), {names["critic"], names["blind"]}
        for role, name in names.items():
            if name is not None and name not in opened:
                with tracking.role(role):
                    scorer = await stack.enter_async_context(scorer_of(name, scorers))
                own = flags.tokenizer if name in critics else None
                opened[name] = Model(scorer, encoding_of(own or name, needs_header=False))
        desk = cls({role: opened[name] for role, name in names.items() if name is not None})
        desk.flags, desk.scorers, desk.views = flags, scorers, {}
        told = [turn for turn in turns if turn.ground_truth]
        others = with_others_solutions(told) if len({turn.ground_truth for turn in told}) > 1 else ()
        desk.solutions = {one.key[0]: one.ground_truth for one in others}
        if flags.judge is not None:
            from sweet_rl.openai_client import base_url_from

            said = "--judge_base_url names the judge's server, --judge its model."
            urls, key = base_url_from("", 0, flags.judge_base_url), scorers.api_key_var
            with tracking.role("judge"):
                desk.judge = client_of(urls, scorers, key_var=key, named_by=said)
            stack.push_async_callback(desk.judge.close)
        critic, reference, agent = map(desk.models.get, ("critic", "reference", "agent"))
        if agent is not None and agent.scorer.has_value_head:
            raise UsageError(f"--agent {flags.agent} is a critic with a regression head. Name a policy.")
        if critic is None or critic.scorer.has_value_head:
            return desk
        credit.check_reference(turns, critic, reference)
        sampled = (one for turn in turns for one in turn.candidates if one.token_ids and one.mean is not None)
        same = [credit.spells(one, critic.encoding) for one in sampled]
        if reference is not None:
            same = [reference.encoding.digest == critic.encoding.digest]
        if same and not any(same):
            whose = flags.reference_model or "the agent that sampled"
            problem = f"The critic {flags.critic} has another tokenizer than {whose}: other tokens cannot be compared"
            raise UsageError(f"{problem}. Pass --reference_model with the model that it was trained from.")
        return desk


def _less(ours: Values, theirs: Values) -> Values:
    """Differences; the first reason where one is missing."""

    def of(a: Value, b: Value) -> Value:
        return a if isinstance(a, str) else b if isinstance(b, str) else a - b

    return [[*map(of, one, other)] for one, other in zip(ours, theirs, strict=True)]


def _each(asked: Sequence[Asked], why: str) -> Values:
    return [[why] * len(one.turn.candidates) for one in asked]


async def privileged(asked: Sequence[Asked], desk: Desk, *, other: bool = False) -> Values:
    """The log-ratio of a turn with and without the solution under the untrained policy: log p(a | y, h) - log p(a | h).

    The teacher's signal of on-policy self-distillation (OPSD, arXiv 2602.04942), and PBSD's evidence of a turn
    (arXiv 2606.09348). Our reading: sums over the turn's tokens; the solution y stands where SWEET-RL's critic reads it.
    `privileged_other` is a control, with the solution of another task: its score is not about this one.
    """
    turns = [one.turn for one in asked]
    solutions = [desk.solutions.get(turn.key[0]) if other else turn.ground_truth for turn in turns]
    if None in solutions:
        return _each(asked, "same_solution")
    told = [replace(turn, ground_truth=str(own)) for turn, own in zip(turns, solutions, strict=True)]
    knowing = await desk.read("agent", told, told=True, total=True)
    return _less(knowing, await desk.read("agent", turns, total=True))


async def trace(asked: Sequence[Asked], desk: Desk) -> Values:
    """TRACE (arXiv 2607.13988): by how much a turn and its reply raise the answer's log-probability.

    (1/|y|) [log p(y | h_{t+1}) - log p(y | h_t)] under the policy, with the solution y as the agent's next words. Our
    reading, and the mean over the answer's tokens is ours (as in IGPO, arXiv 2510.14967). The last turn has no h_{t+1}.
    """
    places = [place for place, one in enumerate(asked) if one.following is not None]
    found = []
    for turns in ([one.following for one in asked if one.following], [asked[place].turn for place in places]):
        answers = [Candidate(one.ground_truth, None, None, None, cut=True) for one in turns]
        both = zip(turns, answers, strict=True)
        found.append(await desk.read("agent", [replace(one, candidates=(own,)) for one, own in both]))
    return _at(places, _less(*found), asked)


PLACEHOLDER = "No information found."  # for a reply that is not shown: the authors' `observation_placeholder`


async def infopo(asked: Sequence[Asked], desk: Desk) -> Values:
    """InfoPO (arXiv 2603.00656): how much the reply to a turn changes what the agent says next.

    I_t = KL(p(a_{t+1} | h, reply_t) || p(a_{t+1} | h, placeholder)), as the authors' README has it; here by its one
    sample, the next turn that was taken: the mean over its tokens of log p with the reply less log p with the
    placeholder. The last turn has no next one.
    """
    places, shown, masked = list[int](), list[Candidates](), list[Candidates]()
    for place, one in enumerate(asked):
        if one.following is not None and one.reply and one.reply in one.following.prompt:
            before, _, after = one.following.prompt.rpartition(one.reply)
            places.append(place)
            shown.append(one.following)
            masked.append(replace(one.following, prompt=before + PLACEHOLDER + after))
    told, hidden = [await desk.read("agent", turns) for turns in (shown, masked)]
    return _at(places, _less(told, hidden), asked)


def _at(places: Sequence[int], values: Values, asked: Sequence[Asked]) -> Values:
    """Values at their places; the others lack a reply."""
    known = dict(zip(places, values, strict=True))
    missing = ["no_reply" if one.taken else "not_taken" for one in asked]
    return [known.get(at) or [why] * len(asked[at].turn.candidates) for at, why in enumerate(missing)]


async def sweet(asked: Sequence[Asked], desk: Desk, *, paper: bool = False, told: bool = True) -> Values:
    """SWEET-RL's critic (arXiv 2503.15478): (1/L) [log critic(a | y, h) - log reference(a | h)] over a turn's L tokens.

    The released code's advantage; by the paper's equation 3 (`sweet_paper`) the reference reads the solution y, too. A
    critic with a regression head gives its value. `blind` is a critic that is not told, beside such a reference.
    """
    role = "critic" if told else "blind"
    found = await desk.compared([one.turn for one in asked], told=told, paper=paper, role=role)
    if told == (role == "critic") and paper == (told and desk.flags.advantage == "paper"):
        desk.views["hidden" if told else "without_hidden"] = found
    return [[view.why if view.advantage is None else view.advantage for view in own] for own in found]


async def archer(asked: Sequence[Asked], desk: Desk) -> Values:
    """ArCHer's critic (arXiv 2402.19446) of a run's newest checkpoint: A(h, a) = min(Q1, Q2) - min(V1, V2).

    The advantage that its actor learns from (`sweet_rl.online.losses.advantages`). A policy with a chat template observes
    its prompt; any other the world's transcript.
    """
    import torch

    from sweet_rl.online.losses import advantages

    desk.archer = desk.archer or _archer_critic(Path(desk.flags.archer_run), desk.scorers.device)
    (critic, observed), found = desk.archer, _each(asked, "no_messages")
    for place, one in enumerate(asked):
        if one.before:
            texts, observation = [candidate.text for candidate in one.turn.candidates], observed(one)
            with torch.no_grad():
                values = advantages(critic.read([observation] * len(texts), texts)).tolist()
            read = (critic.encoder.tokenizer(text)["input_ids"] for text in (observation, *texts))
            desk.cost[one.turn.key] = sum(map(len, read))
            found[place] = [value if math.isfinite(value) else "not_finite" for value in values]
    return found


def _archer_critic(folder: Path, device: str) -> tuple[Any, Callable[[Asked], str]]:
    """The critic of a run, and what it observes before a turn."""
    from sweet_rl.commands.run_archer import CHAT_TEMPLATE, models_of, settings_of
    from sweet_rl.online.loop import SETTINGS
    from sweet_rl.online.models import load_archer_critic
    from sweet_rl.policies.weights import device_of
    from sweet_rl.training.checkpoints import complete_checkpoints, load_state
    from sweet_rl.worlds import world_of

    checkpoints = complete_checkpoints(folder) if (folder / SETTINGS).is_file() else []
    state = load_state(checkpoints[-1]) if checkpoints else {}
    if "critic_state_dict" not in state:
        repair = "Name the folder of a run of ArCHer or CHAI with checkpoints (save_freq=N): they have it."
        raise UsageError(f"--archer_run {str(folder)!r} holds no critic. {repair}")
    config = json.loads((folder / SETTINGS).read_text("utf-8"))
    settings = settings_of({**config, **models_of(config, (), folder), "template": None})  # the policy's
    critic = load_archer_critic(settings, device_of(device, "device"))
    critic.load_state_dict(state["critic_state_dict"])
    transcript, chat = world_of(config["env_name"]).transcript(), config["template"] == CHAT_TEMPLATE
    return critic, lambda one: one.turn.prompt if chat else transcript.render(one.before)


# a sign, the number, what it is out of; a bracket is none of these: "SCORE (0-10)"
_SCORE = re.compile(
    r"\bSCORE(?: [-\u2013] )?[^a-z0-9(\u2013\u2212-]*([\u2013\u2212-]?)([0-9]+(?:\.[0-9]+)?)(?:\s*/\s*([0-9]+))?",
    re.IGNORECASE,
)


async def judge(asked: Sequence[Asked], desk: Desk) -> Values:
    """A chat model behind a server gives a number from 0 to 10; it is told the solution (`judge_turn_prompt`). Ours.

    Another number tells of another scale, and is none: -3, 85, 4/5.
    The tokens that the server counts are shared equally by the turns of a window.
    """
    from sweet_rl.concurrency import for_each
    from sweet_rl.openai_client import RequestFailed

    prompt, found = load_prompt("judge_turn_prompt"), _each(asked, "no_messages")

    async def ask(at: tuple[int, int]) -> None:
        one = asked[at[0]]
        said = {"dialogue": dialogue_string(one.before), "solution": one.turn.ground_truth or "(none)"}
        prompt_of = fill(prompt, **said, turn=one.turn.candidates[at[1]].text)
        body = {"model": desk.flags.judge, "messages": [{"role": "user", "content": prompt_of}]}
        try:
            reply = await desk.judge.chat({**body, "max_tokens": 512, "temperature": 0})
        except RequestFailed as error:
            why = f"The judge did not score a turn ({error.failure}). What had finished is on disk"
            raise ServiceError(f"{why}: --to_continue resumes.") from error
        sign, number, out_of = (_SCORE.findall(reply.content) or [("-", "0", "")])[-1]
        fits = not sign and out_of in {"", "10"} and float(number) <= 10
        found[at[0]][at[1]] = float(number) if fits else "no_number"

    used = desk.judge.stats
    earlier = used.prompt_tokens + used.completion_tokens
    places = [(at, place) for at, one in enumerate(asked) if one.before for place in range(len(found[at]))]
    await for_each(places, ask, at_once=32)
    spent = used.prompt_tokens + used.completion_tokens - earlier
    desk.cost.update(dict.fromkeys((one.turn.key for one in asked), round(spent / len(asked))))
    return found


async def oracle(asked: Sequence[Asked], desk: Desk) -> Values:
    """The world's own verdict on whether the turn was worth taking (`World.scores.good_turn`): 1 or 0."""
    from sweet_rl.worlds import world_of

    good_turn, found = world_of(desk.flags.oracle_of).scores.good_turn, _each(asked, "no_messages")
    for one, own in zip(asked, found, strict=True):
        for place, candidate in enumerate(one.turn.candidates if one.before else ()):
            good = good_turn(one.turn.ground_truth, one.before, candidate.text)
            own[place] = "no_verdict" if good is None else float(good)
    return found


class Method(NamedTuple):
    """A method that reads texts, and the flags of `credit score` that it needs."""

    score: Callable[[Sequence[Asked], Any], Awaitable[Values]]
    flags: tuple[str, ...]
    needs_solution: bool = True


READING: Mapping[str, Method] = {
    "trace": Method(trace, ("agent",)),
    "infopo": Method(infopo, ("agent",), needs_solution=False),
    "privileged": Method(privileged, ("agent",)),
    "privileged_other": Method(partial(privileged, other=True), ("agent",)),
    "sweet": Method(sweet, ("critic",)),
    "sweet_paper": Method(partial(sweet, paper=True), ("critic", "reference_model")),
    "blind": Method(partial(sweet, told=False), ("critic",), needs_solution=False),
    "archer": Method(archer, ("archer_run",), needs_solution=False),
    "judge": Method(judge, ("judge", "judge_base_url"), needs_solution=False),
    "oracle": Method(oracle, ("oracle_of",)),
}


def asked_of(trajectory: Trajectory) -> list[Asked]:
    """The agent's turns, each with what was said before and after it."""
    history, turns, asked = trajectory.dialogue_history, own_turns(trajectory), list[Asked]()
    places = [place for place, message in enumerate(history) if message.role == "assistant"]
    for number, (place, turn) in enumerate(zip(places, turns, strict=True)):
        following = turns[number + 1] if number + 1 < len(turns) else None
        reply = history[place + 1].content if following and history[place + 1].role != "assistant" else None
        asked.append(Asked(turn, history[:place], reply, following))
    return asked


def steps_of(trajectory: Trajectory) -> Steps | None:
    """An episode by turns; an outcome is the last turn's reward in worlds that reward none. A state is the prompt."""
    turns = [turn for turn in trajectory.dialogue_history if turn.role == "assistant"]
    rewards = [turn.reward if isinstance(turn, AgentTurn) else None for turn in turns]
    if None in rewards:
        rewards = [*(0.0 for _ in turns[1:]), trajectory.reward]
    known = tuple(reward for reward in rewards if reward is not None)
    asked = asked_of(trajectory)
    states = (one.turn.prompt or "\0".join(said.content for said in one.before) for one in asked)
    return None if trajectory.failed or len(known) < max(1, len(turns)) else Steps(known, tuple(states))


Known = dict[TurnKey, dict[str, Sequence[Value]]]  # scores of turns by methods


def grouped_scores(trajectories: Sequence[Trajectory], methods: Iterable[str], gamma: float) -> Known:
    """What the methods of `GROUPED` say of every turn."""
    groups: dict[str, list[Trajectory]] = defaultdict(list)
    found: Known = defaultdict(dict)
    for trajectory in trajectories:
        groups[trajectory.task.task_id].append(trajectory)
    for members in groups.values():
        steps = [steps_of(one) for one in members]
        group = [one for one in steps if one is not None]
        for name in methods:
            scores = iter(GROUPED[name](group, gamma) if len(group) > 1 else ())
            for trajectory, one in zip(members, steps, strict=True):
                own = None if one is None else next(scores, None)
                for number, turn in enumerate(own_turns(trajectory)):
                    why = "no_reward" if one is None else "one_repeat"
                    found[turn.key][name] = [why if own is None else own[number]]
    return found


async def score_window(asked: Sequence[Asked], methods: list[str], desk: Desk, known: Known) -> list[Json]:
    """The rows of some turns: scores of all methods, why some are missing, the tokens that were read."""
    keys = [key_fields(one.turn.key) | {"turn_digest": digest_of(one.turn)} for one in asked]
    rows: list[dict[str, Json]] = [key | {"scores": {}, "why": {}, "cost": {}} for key in keys]
    for name in methods:
        method = READING.get(name)
        needs = method is None or method.needs_solution
        able = [method is not None and not (needs and not one.turn.ground_truth) for one in asked]
        desk.begin()
        desk.views.clear()
        scored = iter(await method.score([*compress(asked, able)], desk) if method else ())
        views = {way: iter(own) for way, own in desk.views.items()}
        for one, row, asks in zip(asked, rows, able, strict=True):
            none = ["not_taken" if method is None else "no_solution"] * len(one.turn.candidates)
            own = next(scored) if asks else known.get(one.turn.key, {}).get(name, none)
            numbers = [None if isinstance(value, str) else value for value in own]
            row["scores"][name] = numbers[0] if one.taken else numbers
            row["why"] |= {name: value for value in own[::-1] if isinstance(value, str)}  # noqa: B035 - the first one stays
            row["cost"][name] = desk.cost[one.turn.key]
            for way, view in views.items() if one.taken else ():
                said = asdict(next(view)[0] if asks else View(why="no_solution"))
                known_parts = {key: own for key, own in said.items() if own not in {None, ""}}
                row[way] = {"advantage": said["advantage"]} | known_parts
    return rows

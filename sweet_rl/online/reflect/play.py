"""Many episodes of text games side by side: two models and the games; the levels that a run plays, and when.

What an episode draws depends on its own seed only, not on the episodes that it is played with.

Published behaviour: docs/published/reflect_rl.md#episodes, #curriculum, #online-loop, #deviations.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from sweet_rl.chat.reflect_format import cut_reflection, policy_prompt, reflection_prompt
from sweet_rl.errors import EpisodeError, UsageError
from sweet_rl.online.reflect.settings import ReflectSettings
from sweet_rl.statistics import other_places
from sweet_rl.text_game import TextGame
from sweet_rl.types import Compat, Task, derive_seed
from sweet_rl.worlds import Level, LevelRequest, levels_of
from sweet_rl.worlds.text_games import games_of


class Chosen(NamedTuple):
    """What a policy did: the text, its places in the distribution, and what the model knew about it.

    `logprob` is the sum over tokens under the distribution that was sampled from, `entropy` the sum of its
    entropies, in nats.
    """

    text: str
    token_ids: tuple[int, ...] = ()
    logprob: float = 0.0
    entropy: float = 0.0


class Actor(Protocol):
    """Chooses actions (`agent.Agent`, or a script)."""

    def choose(self, prompts: Sequence[str], seeds: Sequence[int]) -> Sequence[Chosen]: ...


class Reflector(Protocol):
    """Writes reflections (`agent.Agent`, or a script): one for each prompt, in order; seed i draws the text of prompt i."""

    def write(self, prompts: Sequence[str], seeds: Sequence[int]) -> Sequence[str]: ...


_REMEMBERED: Final = 50  # reflections that are kept for states that no other one is reflected on with


class OthersReflections:
    """Gives every state the reflection of another one: a policy that plays as well with these reads none.

    Of the states that are reflected on together; where these are all alike, one of those before.
    """

    def __init__(self, reflector: Reflector) -> None:
        self._reflector = reflector
        self._earlier: list[str] = []
        self.states = self.own = 0

    def write(self, prompts: Sequence[str], seeds: Sequence[int]) -> list[str]:
        """One reflection for each prompt, written about another: its own only where all so far are alike."""
        written = [*self._reflector.write(prompts, seeds)]
        if len(set(written)) > 1:
            given = [written[place] for place in other_places(written)]
            self._earlier = written
        else:
            given = [next((text for text in self._earlier if text != own), own) for own in written]
            self._earlier = [*dict.fromkeys([*self._earlier, *written])][:_REMEMBERED]
        self.states += len(written)
        self.own += sum(text == own for text, own in zip(given, written, strict=True))
        return given


class Step(NamedTuple):
    """One action: what the policy read, what it did (see `Chosen`), what that cost."""

    prompt: str
    action: str
    token_ids: tuple[int, ...]
    logprob: float
    entropy: float
    cost: float


class Played(NamedTuple):
    """One episode, whole or broken off by a failure.

    `threshold`: it is a success where its costs sum to less; `told`: whether it is one, by the game itself.
    """

    task_id: str
    seed: int
    threshold: float
    steps: tuple[Step, ...]
    failure: str | None = None
    told: bool | None = None

    @property
    def cost(self) -> float:
        return sum(step.cost for step in self.steps)

    @property
    def succeeded(self) -> bool:
        """Whether it was won, as the game told; else whether it cost less than its task's threshold."""
        won = self.cost < self.threshold if self.told is None else self.told
        return self.failure is None and won


class Rules(NamedTuple):
    """How episodes are played."""

    reflect_prob: float = 1.0  # how often the reflection model is asked, by step
    first_step: bool = False  # one step an episode
    one_draw: bool = False  # ask the reflection model in all episodes of a batch, or in none, as published


class Playing:
    """One episode that is being played; an EpisodeError ends it as failed."""

    def __init__(self, game: TextGame, task: Task, seed: int) -> None:
        self.game, self.task, self.seed = game, task, seed
        self.steps: list[Step] = []
        self.threshold, self.text, self.over = 0.0, "", False
        self.failure: str | None = None
        self.told: bool | None = None  # by the game itself, whether it was won
        with self.guarded():
            self.text = game.reset(task, seed=seed)
            self.threshold = game.success_threshold

    def take(self, prompt: str, chosen: Chosen, *, first_step: bool = False) -> None:
        """Play the chosen action and keep the step."""
        with self.guarded():
            moved = self.game.step(chosen.text)
            known = tuple(chosen.token_ids), chosen.logprob, chosen.entropy
            self.steps.append(Step(prompt, chosen.text, *known, moved.cost))
            self.text, self.over = moved.text, moved.over or first_step
            told = moved.info.get("succeeded")
            self.told = told if isinstance(told, bool) else None

    @contextmanager
    def guarded(self) -> Iterator[None]:
        try:
            yield
        except EpisodeError as error:
            self.failure, self.over = str(error), True

    def seed_of(self, what: str) -> int:
        """The seed of one draw at the current step, by its purpose."""
        return derive_seed(self.seed, what, len(self.steps))

    def played(self) -> Played:
        steps, task = tuple(self.steps), self.task.task_id
        return Played(task, self.seed, self.threshold, steps, self.failure, self.told)


def play(
    make_game: Callable[[], TextGame], tasks: Sequence[Task], seeds: Sequence[int], actor: Actor,
    reflector: Reflector | None = None, rules: Rules | None = None, *, at_once: int | None = None,
    tell: Callable[[int], object] = lambda _: None,
) -> list[Played]:  # fmt: skip
    """Play one episode of each task, side by side; where one ends, the next begins at once."""
    waiting, rules = deque(zip(tasks, seeds, strict=True)), rules or Rules()
    episodes: list[Playing] = []
    going: list[Playing] = []
    try:
        while waiting or going:
            while waiting and (at_once is None or len(going) < at_once):
                going.append(Playing(make_game(), *waiting.popleft()))
                episodes.append(going[-1])
            if moving := [one for one in going if not one.over]:
                # One action of each, behind its reflection: "" where none was asked for, None without a reflector.
                reflections: list[str | None] = [None] * len(moving)
                if reflector is not None:
                    drawn = [one.seed_of("reflect?") / 2**31 < rules.reflect_prob for one in moving]
                    drawn = [drawn[0]] * len(moving) if rules.one_draw else drawn
                    asked = [one for one, wanted in zip(moving, drawn, strict=True) if wanted]
                    texts = [
                        reflection_prompt(one.text, one.game.head, instruction=one.game.instruction)
                        for one in asked
                    ]
                    written = iter(
                        reflector.write(texts, [one.seed_of("reflect") for one in asked]) if asked else ()
                    )
                    reflections = [cut_reflection(next(written)) if wanted else "" for wanted in drawn]
                prompts = []
                for one, reflection in zip(moving, reflections, strict=True):
                    # The instruction belongs to the analysis: a policy that does not reflect is not given it.
                    instruction = "" if reflection is None else one.game.instruction
                    prompts.append(
                        policy_prompt(one.text, one.game.head, reflection, instruction=instruction)
                    )
                chosen = actor.choose(prompts, [one.seed_of("act") for one in moving])
                for one, prompt, action in zip(moving, prompts, chosen, strict=True):
                    one.take(prompt, action, first_step=rules.first_step)
            ended, going = [one for one in going if one.over], [one for one in going if not one.over]
            for one in ended:
                one.game.close()
            tell(len(ended))
    finally:
        for one in going:
            one.game.close()
    return [one.played() for one in episodes]


def starts_of(
    sizes: Sequence[int], max_steps: int, *, equal: bool = False, compat: Compat = "fixed"
) -> list[int]:
    """The iteration with which each level begins: levels get iterations by their number of items, or `equal` ones.

    With fewer iterations than items every published level begins at 0, and only the first is played; ours divides further.
    """
    if equal:
        return [level * max_steps // len(sizes) for level in range(len(sizes))]
    before, total = [sum(sizes[:level]) for level in range(len(sizes))], sum(sizes)
    if total and (compat == "published" or max_steps >= total):
        return [max_steps // total * items for items in before]
    return [max_steps * items // max(1, total) for items in before]


class Schedule:
    """Draws an iteration's items from the levels' items.

    `place` is where a run is in its data, as checkpoints hold it: a level, a pass over it, how much of the pass is
    over. Published, levels that begin together are one turn.
    """

    def __init__(
        self, sizes: Sequence[int], starts: Sequence[int], *, batch: int, seed: int, compat: Compat = "fixed"
    ) -> None:
        self._sizes, self._batch, self._seed = sizes, batch, seed
        self._starts = sorted(set(starts)) if compat == "published" else list(starts)
        self.place = {"level": -1, "passed": 0, "position": 0}

    def draw(self, iteration: int) -> tuple[bool, int, list[int]]:
        """Whether a level begins, which it is, and the items that are played now."""
        now = max(0, bisect_right(self._starts, iteration) - 1)
        level = max(now, self.place["level"])  # a run that became longer goes no level back
        begins = level != self.place["level"]
        passed, position = (0, 0) if begins else (self.place["passed"], self.place["position"])
        order = list(range(self._sizes[level]))
        random.Random(derive_seed(self._seed, "order", level, passed)).shuffle(order)
        end = position + self._batch
        over = end >= len(order)
        self.place = {"level": level, "passed": passed + over, "position": 0 if over else end}
        return begins, level, order[position:end]


@dataclass(frozen=True, slots=True)
class Playground:
    """What is played: levels, the iterations with which they begin, and every label that can be offered."""

    levels: Sequence[Sequence[Task]]
    names: Sequence[str]
    starts: Sequence[int]
    labels: Sequence[str]
    make_game: Callable[[], TextGame]


@contextmanager
def open_playground(settings: ReflectSettings, *, measures: bool = False) -> Iterator[Playground]:
    """The world of the settings; what its games share is freed with the block."""
    world, learning = settings.world, settings.world.learning
    # A published level has as many entries as a micro-batch has rows, so an iteration plays no more.
    published, ours = settings.per_device_train_batch_size, settings.per_device_eval_batch_size
    entries = published if settings.published else ours
    request = LevelRequest(tasks=settings.task_file or None, measures=measures, entries=entries)
    levels = chosen(levels_of(world, settings.rules, request), settings)
    tasks, names = [level.tasks for level in levels], [level.name for level in levels]
    if not levels or not all(tasks):
        raise UsageError(
            f"There is nothing to play: --task_file {settings.task_file!r} has no task for a level of "
            "the curriculum. --curriculum_index takes one level."
        )
    how: Any = {"equal": learning.equal_levels, "compat": settings.compat}
    starts = starts_of([len(level) for level in tasks], settings.max_steps, **how)
    with games_of(world, learning.prepared(settings.rules, request)) as make_game:
        yield Playground(tasks, names, starts, learning.labels, make_game)


def chosen(levels: Sequence[Level], settings: ReflectSettings) -> Sequence[Level]:
    """All levels or the one that is asked for; of the first one only a few tasks where that is asked for."""
    index = settings.curriculum_index
    if index >= len(levels):
        raise UsageError(
            f"--curriculum_index must be below {len(levels)}, the number of levels, got {index}; -1 takes all."
        )
    left, few = levels if index < 0 else levels[index : index + 1], settings.few_data
    return [Level(left[0].name, left[0].tasks[:few])] if few and left else left


def sample_texts(ground: Playground, count: int = 48) -> list[str]:
    """Prompts of some first states, and of those a few steps later: what a tokenizer may learn from."""
    texts: list[str] = []
    tasks = [task for level in ground.levels for task in level]
    for number in range(count):
        game = ground.make_game()
        try:
            texts += [game.instruction, game.reset(tasks[number % len(tasks)], seed=number)]
            for step in range(3):
                moved = game.step(game.labels[(number + step) % len(game.labels)])
                texts.append(moved.text)
                if moved.over:
                    break
        except EpisodeError:
            continue
        finally:
            game.close()
    return texts

"""Text games as worlds, and worlds as text games.

`TextGameWorld` plays any `TextGame` turn by turn. `games_of` is the other way round: episodes of any world as
games, for algorithms that step many at once; the prompt is the world's transcript, the label what its `Env` is given.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import Any, ClassVar, Final, TypeVar

from sweet_rl.chat.formats import LastObservation
from sweet_rl.chat.reflect_format import offered_commands
from sweet_rl.contracts import Env, User
from sweet_rl.errors import EpisodeError, UsageError
from sweet_rl.text_game import GameStep, TextGame
from sweet_rl.types import Failure, Json, Observation, StepResult, Task
from sweet_rl.worlds.base import BaseEnv, World
from sweet_rl.worlds.options import Options

T = TypeVar("T")

ACTION_HEAD: Final = "\nThe actions you can take now is:"
"""What begins the list of actions, which ends a prompt, in the published games."""


class TextGameWorld(World):
    """A world whose core is a `TextGame`; subclasses write `games`. `threaded`: a step waits for processes."""

    threaded: ClassVar[bool] = False

    def games(self, options: Options) -> AbstractContextManager[Callable[[], TextGame]]:
        """What makes a fresh game, of `options` or `learning.options`; what games share is freed at the end."""
        raise NotImplementedError

    @asynccontextmanager
    async def open(self, options: Options, user: User | None) -> AsyncIterator[Callable[[], Env]]:
        """Games as environments; what they share is freed with the block."""
        with self.games(options) as make_game:
            yield lambda: TextGameEnv(make_game, threaded=self.threaded)

    def transcript(self) -> LastObservation:
        """The game's last message: each one has the whole state."""
        return LastObservation()


class TextGameEnv(BaseEnv):
    """One episode of a text game; each user message has the whole state. What was won or lost is terminated, what
    ran out of steps is truncated, however a game sets the two; the row's `game` is the last `info` and `cost`."""

    _game: TextGame

    def __init__(self, make_game: Callable[[], TextGame], *, threaded: bool = False) -> None:
        super().__init__()
        self._make_game, self._threaded = make_game, threaded

    async def opening(self) -> str:
        await self.close()
        self._game, self._cost = await self._do(self._make_game), 0.0
        return await self._do(partial(self._game.reset, self.task, seed=self.seed))

    def visible(self, action: str) -> str:
        """Its first line."""
        return action.strip().partition("\n")[0].encode("utf-8", "replace").decode()

    async def turn(self, action: str) -> StepResult:
        """Take the agent's text as a label."""
        moved = await self._do(partial(self._game.step, action))
        self._cost += moved.cost
        # Won is an end even where it is published as a truncation; no more steps is none, even where it is.
        ended = moved.info.get("won") is True or (moved.terminated and not moved.info.get("out_of_steps"))
        how = {"terminated": moved.over and ended, "truncated": moved.over}
        game = dict(moved.info) | {"cost": round(self._cost, 6)}
        return self.respond(moved.text, moved.reward, **how, info={"game": game})

    async def close(self) -> None:
        self._over = True
        if hasattr(self, "_game"):
            await self._do(self._game.close)

    async def _do(self, work: Callable[[], T]) -> T:
        if not self._threaded:
            return work()
        import asyncio  # which --help does not load

        return await asyncio.to_thread(work)


@contextmanager
def games_of(world: World, options: Options) -> Iterator[Callable[[], TextGame]]:
    """What makes a fresh game of any world, for algorithms that choose labels; what games share is freed at the end.

    The coroutines of an `Env` run in a thread of their own, one at a time: who waits for them may have a running loop.

    Raises:
        UsageError: a package or a file is missing, or no turn is rewarded here.
    """
    if isinstance(world, TextGameWorld):
        with world.games(options) as make_game:
            yield make_game
        return
    if world.user.by == "human":
        raise UsageError(f"{world.name} gives no rewards for turns, which this training needs.")
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    runner = asyncio.Runner()
    with ThreadPoolExecutor(1, thread_name_prefix="games") as executor, ExitStack() as stack:

        def run(work: Coroutine[Any, Any, T]) -> T:
            return executor.submit(runner.run, work).result()

        stack.callback(lambda: executor.submit(runner.close).result())
        user = None
        if world.user.by == "oracle":
            user = world.user.make(world.name)
            stack.callback(lambda close: run(close()), user.close)
        opened = world.open(options, user)
        make_env = run(opened.__aenter__())
        stack.callback(lambda: run(opened.__aexit__(None, None, None)))
        yield lambda: PlayedEnv(world, options, make_env, run)


class PlayedEnv:
    """One episode of an `Env` as a `TextGame`; the `info` of its last step says whether it `succeeded`, where
    the world knows. `observation` is what the world's own agents are shown."""

    def __init__(
        self,
        world: World,
        options: Options,
        make_env: Callable[[], Env],
        run: Callable[[Coroutine[Any, Any, Any]], Any],
    ) -> None:
        self.head, self.instruction = world.learning.head or "", world.system_prompt.strip()
        self.max_labels, self.success_threshold = world.learning.labels, -(world.scores.success_return or 0.0)
        self.text = ""
        self.observation: Observation | None = None
        self._world, self._options, self._transcript = world, options, world.transcript()
        self._return, self._told = 0.0, dict[str, Json]()
        self._make_env, self._run = make_env, run
        self._env: Env | None = None

    @property
    def labels(self) -> Sequence[str]:
        """The available labels; every label where the text has no list."""
        return tuple(offered_commands(self.text, self.head)) or self.max_labels

    def reset(self, task: Task, *, seed: int) -> str:
        self.close()
        self._env = env = self._make_env()
        self._return, self._told = 0.0, {}
        return self._see(self._run(env.reset(task, seed=seed)))

    def step(self, label: str) -> GameStep:
        """Give the label to the world; a turn without a reward counts as 0.

        Raises:
            EpisodeError: the world broke.
            UsageError: the episode is over, and the world does not say whether it is a success.
        """
        if self._env is None:
            return GameStep(self.text, 0.0, terminated=True, truncated=False, info={})
        result: StepResult = self._run(self._env.step(label))
        if result.stop_reason is not None and result.stop_reason.failed:
            unknown = Failure(result.stop_reason, "the world ended the episode without saying why")
            raise EpisodeError(result.stop_reason, (*result.failures, unknown)[0])
        self._see(result.observation)
        reward = result.reward or 0.0
        self._return += reward
        self._told |= result.info
        info: dict[str, Json] = dict(result.info)
        if result.terminated or result.truncated:
            info["succeeded"] = self._world.succeeded(self._return, self._told, self._options)
            if info["succeeded"] is None:
                raise UsageError(
                    "This world does not say what a success is, which is learned from and counted here: let its last "
                    "step's info tell {'game': {'won': ...}}, or give it `scores=Scores(success_return=...)` "
                    "(docs/train_reflect.md)."
                )
        return GameStep(self.text, reward, result.terminated, result.truncated, info)

    def close(self) -> None:
        env, self._env = self._env, None
        if env is not None:
            self._run(env.close())

    def _see(self, observation: Observation | None) -> str:
        if observation is not None:
            self.observation = observation
            self.text = self._transcript.render(observation.messages)
        return self.text

"""Text adventures as worlds: scenes, the rules of an episode, players without a model; a turn is rewarded by
what the score rose. Published behaviour: docs/published/archer.md (text games)."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import ClassVar

from sweet_rl.chat.formats import LastObservation
from sweet_rl.contracts import Policy
from sweet_rl.errors import UsageError
from sweet_rl.policies.scripted import ScriptedPolicy
from sweet_rl.prompts import load_prompt
from sweet_rl.types import Compat, Observation, StepResult, Task, derive_seed
from sweet_rl.worlds.base import BaseEnv, World, no_agent
from sweet_rl.worlds.options import AgentRequest

# Interpreters know commands that are not moves. Some write files or keep a second copy of the game that other
# episodes would meet: those never reach the game. Others end or restart the session, open a menu that waits for
# keys, or debug the game: those are refused unless the published behaviour is asked for.
REFUSED_ALWAYS = frozenset(
    ["save", "restore", "script", "transcript", "noscript", "unscript", "recording", "replay", "undo"]
)
REFUSED = REFUSED_ALWAYS | frozenset(
    (
        *("quit", "q", "die", "restart", "verify", "help", "about", "info", "information", "manual"),
        *("actions", "changes", "daemons", "timers", "messages", "routines", "trace", "tree"),
        *("scope", "showobj", "showverb", "purloin", "abstract", "goto", "gonear", "random"),
    )
)
REFUSAL = "[That is no move of this game.]"  # what the world says instead
COMMAND_BYTES = 198  # what fits into the interpreter's input line, as UTF-8

_DICTIONARY_LENGTH = 9
_LIST = re.compile(r"\[[^\[\]]*\]\s*\Z")


@dataclass(frozen=True, slots=True)
class Scene:
    """One moment: what `look` and `inventory` would say, what the last action brought, commands that change something
    here; the score so far, and whether the game ended."""

    look: str
    inventory: str
    narrative: str
    actions: tuple[str, ...]
    score: int = 0
    over: bool = False
    won: bool = False


def listed_actions(text: str) -> tuple[str, ...]:
    """The actions at the end of an observation, however it was joined; none where there is no list."""
    found = _LIST.search(text)
    try:
        actions = ast.literal_eval(found.group().strip()) if found else ()
    except (SyntaxError, ValueError):
        return ()
    return tuple(action for action in actions if isinstance(action, str))


def typed(action: str) -> str:
    """What of an action is typed: one line of at most `COMMAND_BYTES`, without what is taken for keys."""
    line = action.partition("\n")[0]
    line = "".join(char if char.isprintable() and char != "\\" else " " for char in line)
    return line.encode("utf-8", errors="replace")[:COMMAND_BYTES].decode("utf-8", errors="ignore")


def is_refused(command: str, *, published: bool = False) -> bool:
    """Whether the command, or one of several in a line, is none that an agent may give."""
    refused = {word[:_DICTIONARY_LENGTH] for word in (REFUSED_ALWAYS if published else REFUSED)}
    sentences = map(str.split, re.split(r"[.,;:\"]|\bthen\b", command.lower()))
    return any(words and words[0][:_DICTIONARY_LENGTH] in refused for words in sentences)


class AdventureEnv(BaseEnv):
    """One episode of a text game; subclasses write `_begin` and `_play`, which raise EpisodeError without a
    game. As published, nothing stands between the parts of an observation, and more may be typed."""

    max_score: ClassVar[int]

    def __init__(self, *, max_turns: int = 50, compat: Compat = "fixed") -> None:
        super().__init__(max_turns)
        self._published = compat == "published"

    async def opening(self) -> str:
        self._latest = await self._begin(self.task)
        return self._say(self._latest)

    def visible(self, action: str) -> str:
        """One command: its first line, empty or not."""
        return action.partition("\n")[0]

    async def turn(self, action: str) -> StepResult:
        before, command = self._latest, typed(action)
        if is_refused(command, published=self._published):
            latest = replace(before, narrative=f"\n{REFUSAL}\n")
        else:
            latest = await self._play(command)
        self._latest = latest
        game = {"score": latest.score, "max_score": self.max_score, "won": latest.won}
        reward = float(latest.score - before.score)
        return self.respond(self._say(latest), reward, terminated=latest.over, info={"game": game})

    async def _begin(self, task: Task) -> Scene:
        """The first moment."""
        raise NotImplementedError

    async def _play(self, command: str) -> Scene:
        """One command of one line, possibly empty."""
        raise NotImplementedError

    def _say(self, latest: Scene) -> str:
        if self._published:
            return f"{latest.look}{latest.inventory}{latest.narrative}{list(latest.actions)}"
        parts = (
            [latest.look, latest.inventory] if not latest.over else []
        )  # at the end nothing is left to look at
        parts += [latest.narrative, f"Actions: {[] if latest.over else list(latest.actions)}"]
        return "\n\n".join(part.strip() for part in parts if part.strip())


class RandomAdventurer(ScriptedPolicy):
    """Takes any of the actions that the last observation lists, drawn by the episode's seed: the floor."""

    name = "random"

    def _say(self, observation: Observation) -> str:
        actions = listed_actions(observation.messages[-1].content) or ("look",)
        return Random(derive_seed(observation.seed, observation.turn)).choice(actions)


class WalkthroughPolicy(ScriptedPolicy):
    """Is given the way through every task and takes it: the ceiling."""

    name = "walkthrough"

    def __init__(self, routes: Mapping[str, Sequence[str]], *, system_prompt: str = "") -> None:
        super().__init__(system_prompt)
        self._routes = routes

    def _say(self, observation: Observation) -> str:
        route = self._routes.get(observation.task_id)
        if route is None:
            raise UsageError(
                f"The walkthrough agent was given no way through the task {observation.task_id!r}; "
                "give it the routes of exactly the tasks that are played."
            )
        return route[observation.turn] if observation.turn < len(route) else "look"


class Adventure(World):
    """A text adventure; subclasses write `rows`, `open` and `routes`."""

    max_turns = 50
    system_prompt = load_prompt("llm_agent_adventure_prompt")
    agents: ClassVar = {"walkthrough": {}, "random": {}}

    async def make_agent(self, wanted: AgentRequest) -> Policy:
        """One that knows the way, or one that draws a command."""
        if wanted.name == "random":
            return RandomAdventurer(system_prompt=wanted.system_prompt)
        if wanted.name != "walkthrough":
            raise no_agent(self, wanted.name)
        return WalkthroughPolicy(await self.routes(wanted), system_prompt=wanted.system_prompt)

    async def routes(self, wanted: AgentRequest) -> Mapping[str, Sequence[str]]:
        """The way through every task, by its id."""
        raise NotImplementedError

    def transcript(self) -> LastObservation:
        """The game's last message: each one has the whole state."""
        return LastObservation()

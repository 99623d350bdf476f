"""AutoExplore: find the file of a repository that answers a question."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from sweet_rl.chat.reflect_format import ACTION_HEADS
from sweet_rl.chat.transcripts import LastObservation
from sweet_rl.contracts import Env, Policy, User
from sweet_rl.worlds.base import AgentRequest, Options, Rows, World


@dataclass(frozen=True, slots=True, kw_only=True)
class ExploreOptions(Options):
    """Options of AutoExplore.

    Args:
        place: the folder of repositories; default: embedded ones.
        leaveout_prob: with which files that are no answer are left out.
        shuffle_action: labels are drawn anew for every step.
    """

    place: str | None = field(default=None, metadata={"flag": "game_place"})
    leaveout_prob: float = field(default=0.0, metadata={"range": (0.0, 1.0)})
    shuffle_action: bool = False


class AutoExplore(World):
    """Reflect-RL's explorer of repositories."""

    name = "auto_explore"
    max_turns = 15
    options = ExploreOptions
    train_tasks, test_tasks = "auto-explore:train", "auto-explore:test"
    sources = ("auto-explore",)
    agents = ("planner", "wanderer")
    agent_prompt = "llm_agent_explore_prompt.txt"
    action_head = ACTION_HEADS["auto_explore"]
    player_rules = (
        "Find the file that answers the question: type the label of a command. `cd` goes to a "
        "folder, `cat` shows a file, `id` hands it in and ends the game. You have {turns} commands."
    )

    def rows(self, source: str, where: str, *, limit: int | None, seed: int) -> Rows:
        """Questions of a split, or of a file of task records."""
        from sweet_rl.worlds.auto_explore.tasks import explore_tasks

        return explore_tasks(where)

    @asynccontextmanager
    async def open(self, options: Options, user: User | None) -> AsyncIterator[Callable[[], Env]]:
        """Games over one library of repositories, each looked at once."""
        from sweet_rl.worlds.auto_explore.game import ExploreGame
        from sweet_rl.worlds.auto_explore.repositories.library import Library
        from sweet_rl.worlds.text_game_env import TextGameEnv

        explore = options if isinstance(options, ExploreOptions) else ExploreOptions()
        library = Library(explore.place)

        def game() -> ExploreGame:
            return ExploreGame(
                library,
                horizon=self.turns(options),
                leaveout_prob=explore.leaveout_prob,
                shuffle_action=explore.shuffle_action,
                strict=options.published,
            )

        yield lambda: TextGameEnv(game)

    async def make_agent(self, wanted: AgentRequest) -> Policy:
        """One that goes straight to the file, and one that draws a command."""
        from sweet_rl.worlds.auto_explore.agents import PlanningExplorer, Wanderer

        if wanted.name == "wanderer":
            return Wanderer(system_prompt=wanted.system_prompt)
        if wanted.name != "planner":
            raise self.no_agent(wanted.name)
        targets = {task.task_id: task.ground_truth for task in wanted.tasks}
        return PlanningExplorer(targets, system_prompt=wanted.system_prompt)

    def transcript(self) -> LastObservation:
        """What the game said last: it says the whole state each time."""
        return LastObservation()


WORLD = AutoExplore()

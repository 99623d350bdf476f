"""The inputs of the engine for a household game: domain, grammar with the task, problem.

Read in a worker process: a problem may come from a user's ALFWorld folder, and the domain from the alfworld
package. Nothing is ever written there.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import TypedDict

from sweet_rl.errors import EpisodeError, SweetRLError
from sweet_rl.types import Failure, Json, StopReason, derive_seed
from sweet_rl.worlds.alfworld import homes as household


class GameData(TypedDict):
    """What `textworld.envs.pddl.PddlEnv.load` takes."""

    pddl_domain: str
    grammar: str
    pddl_problem: str


def read_game(source: str) -> GameData:
    """The game of a source."""
    if not Path(source).is_absolute():
        try:
            game = household.game(source)
        except SweetRLError as error:
            raise bad_game(source, str(error)) from None
        return _game_data(household.problem(game), household.trajectory_data(game), own_words=True)
    folder = Path(source)
    problem, trajectory = folder / "initial_state.pddl", folder / "traj_data.json"
    whole = folder / "game.tw-pddl"
    try:
        if problem.is_file():
            return _game_data(problem.read_text("utf-8"), json.loads(trajectory.read_text("utf-8")))
        data = json.loads(whole.read_text("utf-8"))
        return {
            "pddl_domain": str(data["pddl_domain"]),
            "grammar": str(data["grammar"]),
            "pddl_problem": str(data["pddl_problem"]),
        }
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise bad_game(source, f"{type(error).__name__}: {error}") from None


def bad_game(source: str, why: str) -> EpisodeError:
    """The error for a game that cannot be read."""
    return EpisodeError(StopReason.WORLD_FAILED, Failure("bad_game", f"{source}: {why}"))


def _game_data(problem: str, trajectory: Json, *, own_words: bool = False) -> GameData:
    """Domain and grammar are the user's (`logic/`) where the folder has them, else the package's."""
    from alfworld.agents.utils.misc import add_task_to_grammar
    from alfworld.info import ALFRED_PDDL_PATH, ALFRED_TWL2_PATH

    logic = Path(os.environ.get("SWEET_RL_ALFWORLD_LOGIC", ""))
    domain, grammar = Path(ALFRED_PDDL_PATH), Path(ALFRED_TWL2_PATH)
    if logic.is_absolute() and (logic / domain.name).is_file() and (logic / grammar.name).is_file():
        domain, grammar = logic / domain.name, logic / grammar.name
    random.seed(derive_seed("sentence", trajectory["task_type"], problem))  # it draws from the global one
    words = add_task_to_grammar(
        grammar.read_text("utf-8"), trajectory, goal_desc_human_anns_prob=float(own_words)
    )
    return {"pddl_domain": domain.read_text("utf-8"), "grammar": str(words), "pddl_problem": problem}

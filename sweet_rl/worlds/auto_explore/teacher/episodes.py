"""One episode of AutoExplore by a teacher that is being measured.

Published behaviour: docs/published/reflect_rl.md#evaluation.
"""

from __future__ import annotations

from sweet_rl.errors import EpisodeError
from sweet_rl.openai_client import RequestFailed
from sweet_rl.sft_data.jobs import Done
from sweet_rl.sft_data.teachers import Teacher, of_the_model
from sweet_rl.types import Compat, Failure, Task
from sweet_rl.worlds.auto_explore.game import ExploreGame
from sweet_rl.worlds.auto_explore.teacher.talk import ExploreTalk


async def play_explore(
    task: Task,
    game: ExploreGame,
    player: Teacher,
    *,
    seed: int,
    markov: bool = False,
    compat: Compat = "fixed",
) -> Done:
    """Play a task to its end; the result has `won`, `cost`, and the commands.

    An episode that the model cannot continue is not won. One that the service or the world broke off has no
    result; `compat="published"`: it is not won either.
    """
    failures: list[Failure] = []
    cost, broken = 0.0, False
    try:
        game.reset(task, seed=seed)
        talk = ExploreTalk(game, task.problem_description, player, seed=seed, markov=markov)
        over = False
        while not over:
            turn = await talk.turn()
            over, cost = turn.moved.over, talk.cost
            if turn.failure:
                failures.append(turn.failure)
        won = cost < game.success_threshold
    except (RequestFailed, EpisodeError) as error:
        failures.append(error.failure)
        won = False
        broken = compat == "fixed" and not (isinstance(error, RequestFailed) and of_the_model(error))
    finally:
        game.close()
    if broken:
        return Done(None, tuple(failures))
    commands = list(getattr(game, "history", ()))
    return Done({"task_id": task.task_id, "won": won, "cost": cost, "commands": commands}, tuple(failures))

"""Whether a run's critic reads the game: its advantages with the dialogue of another word's game.

The critic is not told the word, so the dialogue is all that it could know it from.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from sweet_rl import tracking
from sweet_rl.cli.stage import recorded
from sweet_rl.errors import DataError
from sweet_rl.mini.objects.asker import guess
from sweet_rl.online.replay import Transition, transitions
from sweet_rl.preferences.ranking import moved
from sweet_rl.records import load_trajectories, replace_file
from sweet_rl.statistics import area_under_curve, other_places
from sweet_rl.studies.archer.recipe import TASKS, learner_of
from sweet_rl.worlds import load_tasks, world_of
from sweet_rl.worlds.question_games.game import SOLVED_REWARD


@recorded("demo_archer swap", reads=("games",))
def swap(games: str, output: str, *overrides: str) -> None:
    """Value every turn after its own dialogue and after that of another word's game, as long as its own.

    Args:
        output: a .json file: the correlation of both advantages over all turns; and how often, among turns
            that name a word, the critic puts one that wins above one that does not (area under the ROC
            curve), after its own dialogue (`auc`) and after another's (`auc_swapped`).
    """
    from sweet_rl.online.losses import advantages

    pairs = list(_pairs(games))
    if not pairs:
        raise DataError("must hold different games about two words", path=games)
    critic, actions = learner_of(overrides, trained=True).critic, [own.action for own, _ in pairs]
    observations = [own.observation for own, _ in pairs], [other.observation for _, other in pairs]
    own, other = (advantages(critic.read(each, actions)).tolist() for each in observations)
    found = moved([(own, other)])
    turns = [turn for turn, _ in pairs]
    content = {
        "turns": len(own),
        "correlation": found and found.correlation,
        "auc": _area(turns, own),
        "auc_swapped": _area(turns, other),
    }
    tracking.writes(output)
    replace_file(output, [json.dumps(content).encode()])


def _area(turns: Sequence[Transition], values: Sequence[float]) -> float | None:
    """How often a name that wins is above one that does not; None where there are not both."""
    valued = zip(turns, values, strict=True)
    return area((turn.reward == SOLVED_REWARD, value) for turn, value in valued if turn.action in names())


def area(valued: Iterable[tuple[bool, float]]) -> float | None:
    """How often what is good has a higher value than what is not (under the ROC curve); None where there are not both."""
    by_kind: dict[bool, list[float]] = {True: [], False: []}
    for good, value in valued:
        by_kind[good].append(value)
    return area_under_curve(by_kind[True], by_kind[False]) if by_kind[True] and by_kind[False] else None


@cache
def names() -> frozenset[str]:
    """What names a word of the study's game."""
    return frozenset(guess(task.hidden_information) for task in load_tasks(TASKS))


def _pairs(games: str) -> Iterator[tuple[Transition, Transition]]:
    """Every turn, and the turn with the same number of another word's game, where its dialogue is another."""
    turns: dict[int, list[tuple[str, Transition]]] = defaultdict(list)
    transcript = world_of("twenty_questions").transcript()
    for game in load_trajectories(games):
        for number, turn in enumerate(transitions(game, transcript)):
            turns[number].append((game.task.task_id, turn))
    for alike in turns.values():
        for (word, own), place in zip(alike, other_places([word for word, _ in alike]), strict=True):
            other_word, other = alike[place]
            if other_word != word and other.observation != own.observation:
                yield own, other

"""Tasks of DangerousTaxi."""

import pytest

from sweet_rl.errors import UsageError
from sweet_rl.worlds import load_tasks


def starts(source):
    return [task.row["start"] for task in load_tasks(source)]


def test_splits_share_nothing_and_are_the_same_in_every_curriculum():
    everything, train, test = starts("taxi"), starts("taxi:full:train"), starts("taxi:full:test")
    assert (len(everything), len(train), len(test)) == (300, 240, 60)
    assert sorted(train + test) == everything
    assert starts("taxi:pickup:test") == starts("taxi:test") == starts("dangerous-taxi:none:test") == test
    assert test[:5] == HELD_OUT


HELD_OUT = [4, 9, 11, 21, 34]


def test_rows():
    (task,) = load_tasks("taxi:pickup", num_tasks=1)
    assert (task.task_id, task.row["curriculum"]) == ("dangerous_taxi/pickup/1", "pickup")
    assert task.hidden_information == "pickup passenger"
    assert task.row["instruction"] == "Pick the passenger up. Start: 1."
    by_id = {task.task_id: task for task in load_tasks("taxi")}
    assert by_id["dangerous_taxi/full/22"].hidden_information == (
        "move west, pickup passenger, move south, move south, move south, move south, drop off passenger"
    )
    rest = {task.task_id: task for task in load_tasks("taxi:dropoff")}["dangerous_taxi/dropoff/22"]
    assert rest.hidden_information == ", ".join(["move south"] * 4 + ["drop off passenger"])
    assert load_tasks("taxi:none")[0].row["curriculum"] is None
    (anywhere,) = load_tasks("taxi:full:any")
    assert anywhere.row["start"] is None


@pytest.mark.parametrize("source", ["taxi:fast", "taxi:full:dev", "taxi:train:full", "taxi:full:train:x"])
def test_what_there_is_not(source):
    with pytest.raises(UsageError, match="taxi:CURRICULUM"):
        load_tasks(source)

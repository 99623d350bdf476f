"""Trajectory rows of worlds that reward turns: solved, cut short, failed, and an errand that was run."""

from sweet_rl.types import Json
from tests.viewer.samples import row

RIVER = {
    "task_id": "twenty_questions/7",
    "problem_description": "Questions:\n",
    "ground_truth": "river",
    "hidden_information": "river",
}
ERRAND = "Find me a blue kettle, and price lower than 30.00 dollars"
KETTLE = {
    "task_id": "webshop/3",
    "problem_description": "Buy what the shop's first page asks for.",
    "ground_truth": '{"asin": "B000000003"}',
    "hidden_information": '{"asin": "B000000003"}',
    "instruction": ERRAND,
}
ISLAND = {
    "task_id": "lantern/5",
    "problem_description": "You are on an island. Light the great lantern again.",
    "ground_truth": "100 points",
}


def played(task: Json, *turns: tuple[str, float | None, str]) -> list[Json]:
    """The world's first words, then the agent's turns, each as (what it did, reward, what the world said)."""
    history: list[Json] = [{"role": "user", "content": "Here we go."}]
    for said, reward, answer in turns:
        turn = {"role": "assistant", "content": said, "input": "Here we go.", "output": said}
        history += [
            turn if reward is None else turn | {"reward": reward},
            {"role": "user", "content": answer},
        ]
    return history


def game_rows() -> list[Json]:
    """Three tasks; returns -1, -2, 0.67, none and 5 in file order; the last agent reflected."""
    island = played(ISLAND, ("north", 5.0, "A tower."))
    island[1]["reflection"] = "There may be a tower up north."
    return [
        row(
            RIVER,
            0,
            played(RIVER, ("Is it alive?", -1.0, "No."), ("Is it a river?", 0.0, "Yes.")),
            "Is it a river?",
            "ended",
            reward=-1.0,
        ),
        row(
            RIVER,
            1,
            played(RIVER, ("Is it small?", -1.0, "No."), ("Is it wet?", -1.0, "Yes.")),
            None,
            "turn_limit",
            reward=-2.0,
        ),
        row(
            KETTLE,
            0,
            played(KETTLE, ("search[kettle]", 0.0, "[B000000003]"), ("click[Buy Now]", 2 / 3, "Thank you.")),
            "{'asin': 'B000000003'}",
            "ended",
            reward=2 / 3,
        ),
        row(
            KETTLE,
            1,
            played(KETTLE, ("search[tea]", None, "The shop is closed.")),
            None,
            "world_failed",
            error={"kind": "timeout", "detail": "the shop did not answer"},
        ),
        row(ISLAND, 0, island, None, "ended", reward=5.0),
    ]

"""The tasks of a world as rows of data sets for trainers; importing it needs none of their packages."""

from __future__ import annotations

from sweet_rl.integrations.choice import WorldChoice
from sweet_rl.integrations.opened import tasks_of
from sweet_rl.types import Json, Task

NAME = "sweet_rl"
"""What skyrl-gym's environment and verl's agent loop are called."""


def skyrl_rows(choice: WorldChoice) -> list[dict[str, Json]]:
    """Rows for SkyRL: `prompt`, `env_class` and `task_id`."""
    return [
        {"prompt": _prompt(task), "env_class": NAME, "task_id": task.task_id} for task in tasks_of(choice)[1]
    ]


def verl_rows(choice: WorldChoice) -> list[dict[str, Json]]:
    """Rows for verl, whose loop takes the name of the task; the solution is there for critics alone."""
    return [
        {
            "data_source": NAME,
            "agent_name": NAME,
            "prompt": _prompt(task),
            "reward_model": {"style": "rule", "ground_truth": task.ground_truth},
            "extra_info": {"task_id": task.task_id, "index": place},
        }
        for place, task in enumerate(tasks_of(choice)[1])
    ]


def _prompt(task: Task) -> list[dict[str, str]]:
    """What stands where a prompt must; when it is played the world says what is asked."""
    return [{"role": "user", "content": task.problem_description}]

"""A worker process of `workers.Interpreters`: one interpreter, asked through a pipe."""

from __future__ import annotations

from pathlib import Path

from sweet_rl.workers.serving import Methods, work
from sweet_rl.worlds.detective.interpreter import Interpreter


def start(story: str) -> Methods:
    """What may be asked of the interpreter of a game file."""
    interpreter = Interpreter(Path(story))
    return {
        "begin": lambda with_actions: interpreter.begin(with_actions=with_actions),
        "play": lambda state, command, with_actions: interpreter.play(
            state, command, with_actions=with_actions
        ),
        "walkthrough": interpreter.walkthrough,
    }


if __name__ == "__main__":  # python -m sweet_rl.worlds.detective.worker FD FOLDER STORY
    work(start)

"""A worker process of `workers.Interpreters`: one interpreter, asked through a pipe."""

from __future__ import annotations

import sys
from pathlib import Path

from sweet_rl.workers.serving import Methods, work
from sweet_rl.worlds.detective.interpreter import Interpreter


def start(story: Path) -> Methods:
    """What may be asked of the interpreter of a game file."""
    interpreter = Interpreter(story)
    return {
        "begin": lambda with_actions: interpreter.begin(with_actions=with_actions),
        "play": lambda state, command, with_actions: interpreter.play(
            state, command, with_actions=with_actions
        ),
        "walkthrough": interpreter.walkthrough,
    }


if __name__ == "__main__":  # python -m sweet_rl.worlds.detective.worker FD STORY
    work(lambda: start(Path(sys.argv[2])))

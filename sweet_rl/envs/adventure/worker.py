"""A worker process of `workers.Interpreters`: reads questions from a pipe, answers, ends with the pipe."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import warnings
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from sweet_rl.envs.adventure.interpreter import Interpreter


def serve(pipe: Connection, story: Path) -> None:
    """Answer questions `(method, *arguments)` until the other side closes the pipe.

    What a method raises is sent instead of its answer.
    """
    interpreter: Interpreter | None = None
    while True:
        try:
            method, *arguments = pipe.recv()
        except EOFError:
            return
        try:
            interpreter = interpreter or Interpreter(story)
            answer: Any = _answer(interpreter, method, arguments)
        except Exception as error:  # noqa: BLE001 - told to the one who asked
            answer = error
        pipe.send(answer)


def _answer(interpreter: Interpreter, method: str, arguments: list[Any]) -> Any:
    if method == "begin":
        return interpreter.begin(with_actions=arguments[0])
    if method == "play":
        return interpreter.play(arguments[0], arguments[1], with_actions=arguments[2])
    if method == "walkthrough":
        return interpreter.walkthrough()
    raise ValueError(f"no such question: {method}")


def main() -> None:
    """`python -m sweet_rl.envs.adventure.worker FD STORY`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run, which closes the pipe
    warnings.simplefilter("ignore")
    pipe, story = Connection(int(sys.argv[1])), Path(sys.argv[2]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # a game that writes files writes them here
        serve(pipe, story)
        os.chdir("/")


if __name__ == "__main__":
    main()

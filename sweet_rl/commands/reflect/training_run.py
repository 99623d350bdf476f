"""The run of a training: its settings, its folder, what it says when it starts, resumes and ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from sweet_rl import tracking
from sweet_rl.algorithms.distributed import processes
from sweet_rl.algorithms.reflect import experiments
from sweet_rl.algorithms.reflect.settings import ReflectSettings, as_flags
from sweet_rl.command_line.running import on_interrupt
from sweet_rl.commands.reflect.models import Teller, with_tiny_models


class TrainingRun:
    """A run in its folder, in one of its processes; a new one gets a folder of its own.

    Args:
        stage: its name.
        settings: complete.
        resumed: the folder of a run that goes on; None for a new one.
    """

    def __init__(self, stage: str, settings: ReflectSettings, resumed: Path | None) -> None:
        self.settings, self.main = settings, processes.is_main()
        self.say = Teller(speaks=self.main)
        self._stage, self._new = stage, resumed is None
        self.folder = resumed or processes.from_main(
            lambda: experiments.next_experiment(Path(settings.ckpt_path).expanduser(), stage)
        )

    @contextmanager
    def starting(self, texts: Callable[[], Sequence[str]], labels: Sequence[str] = ()) -> Iterator[None]:
        """While models are loaded: tiny ones are made first, and a new folder that fails here goes again.

        Args:
            texts: what the tokenizer of a tiny model learns from.
            labels: of the world; each is a token.
        """
        with experiments.starting(self.folder if self.main and self._new else None):
            tracking.writes(self.folder, folder=True, continues=True)  # a kill leaves a run that is known
            if self._new:
                self.settings = processes.from_main(
                    lambda: with_tiny_models(self.settings, self.folder, texts, labels)
                )
                if self.main:
                    experiments.save_settings(self.folder, self.settings)
            yield

    def announce(self, done: int, unit: str) -> AbstractContextManager[None]:
        """Say where it is and where it resumes, for the record too; the context says how, on Ctrl-C.

        Args:
            done: updates or iterations that its newest checkpoint has.
            unit: which of them, in the singular.
        """
        self.say(f"The run is in {self.folder}")
        tracking.sets(as_flags(self.settings))
        if not self._new and self.main:
            experiments.save_changes(self.folder, self.settings)
        if not self._new:
            checkpointed = f"It resumes after {unit} {done}."
            self.say(checkpointed if done else "It has no checkpoint yet: it starts from the beginning.")
        return on_interrupt(
            f"Resume from the newest checkpoint with: sweet-rl reflect {self._stage} --resume {self.folder}"
        )

    def finish(self, done: int, unit: str, trained: str) -> None:
        """Say what was done; `done` as for `announce`, `trained` is the policy or whichever model."""
        done = max(done, self.settings.max_steps)
        self.say(f"{done} {unit}s are done; the {trained} is in {self.folder}/checkpoint-{done}")

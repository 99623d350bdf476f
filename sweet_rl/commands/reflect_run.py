"""The run of a training: its settings, its folder, what it says when it starts, resumes and ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Self

from sweet_rl import tracking
from sweet_rl.cli.progress import on_interrupt
from sweet_rl.online import distributed
from sweet_rl.online.reflect import runs
from sweet_rl.online.reflect.settings import ReflectSettings, as_flags
from sweet_rl.online.tiny_models import TINY, make_reflect_model
from sweet_rl.training.checkpoints import held


class Teller:
    """Prints each sentence once: two models often have the same to say."""

    def __init__(self, *, speaks: bool = True) -> None:
        self._speaks = speaks
        self._printed: set[str] = set()

    def __call__(self, sentence: str) -> None:
        """Print it, unless it was."""
        if self._speaks and sentence not in self._printed:
            print(sentence, flush=True)
        self._printed.add(sentence)


def with_tiny_models(
    settings: ReflectSettings, folder: Path, texts: Callable[[], Sequence[str]], labels: Sequence[str] = ()
) -> ReflectSettings:
    """The settings with folders where they say `tiny`; the models are made there."""
    if TINY not in {settings.model_name, settings.reflect_model_name}:
        return settings
    made = str(make_reflect_model(folder / TINY, seed=settings.seed, texts=texts(), labels=labels))
    return replace(
        settings,
        model_name=made if settings.model_name == TINY else settings.model_name,
        reflect_model_name=made if settings.reflect_model_name == TINY else settings.reflect_model_name,
    )


class TrainingRun(AbstractContextManager["TrainingRun"]):
    """A run in its folder, in one of its processes; a new one gets a folder of its own.

    While the context is open, no other run writes to the folder.

    Args:
        resumed: the folder of a run that goes on; None for a new one.
    """

    def __init__(self, stage: str, settings: ReflectSettings, resumed: Path | None) -> None:
        self.settings, self.main = settings, distributed.is_main()
        self.say = Teller(speaks=self.main)
        self._stage, self._new, self._lock = stage, resumed is None, ExitStack()
        self.folder = resumed or distributed.from_main(
            lambda: runs.next_experiment(Path(settings.ckpt_path).expanduser(), stage)
        )

    def __enter__(self) -> Self:
        if self.main:
            self._lock.enter_context(held(self.folder))
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.close()

    @contextmanager
    def starting(self, texts: Callable[[], Sequence[str]], labels: Sequence[str] = ()) -> Iterator[None]:
        """While models are loaded: tiny ones are made first, and a new folder that fails here goes again."""
        with runs.starting(self.folder if self.main and self._new else None):
            tracking.writes(self.folder, folder=True, continues=True)  # a kill leaves a run that is known
            if self._new:
                self.settings = distributed.from_main(
                    lambda: with_tiny_models(self.settings, self.folder, texts, labels)
                )
                if self.main:
                    runs.save_settings(self.folder, self.settings)
            yield

    def announce(self, done: int, unit: str) -> AbstractContextManager[None]:
        """Say where it is and where it resumes, for the record too; the context says how, on Ctrl-C."""
        self.say(f"The run is in {self.folder}")
        tracking.sets(as_flags(self.settings))
        if not self._new and self.main:
            runs.save_changes(self.folder, self.settings)
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

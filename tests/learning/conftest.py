"""The worlds of `examples/worlds`, by their names in a run that begins there; stages that run in this process."""

import contextvars
import os
import sys
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from importlib import import_module

import pytest

from sweet_rl.cli.stage import STEP
from sweet_rl.learning import chain
from sweet_rl.pipelines import running
from tests.conftest import ROOT
from tests.tiny_models import save_tiny_llama


@pytest.fixture(scope="session")
def worlds():
    sys.path.insert(0, str(ROOT / "examples/worlds"))
    yield {name: import_module(name).WORLD for name in ("meeting", "number", "notice")}
    sys.path.remove(str(ROOT / "examples/worlds"))


@pytest.fixture
def small_runs(monkeypatch, tmp_path):
    """A folder with a policy of random weights, in which stages run in this process, and play little; the names of those that ran."""
    ran = []

    class Here:
        def submit(self, function, step, *given, **named):
            future = Future()
            try:
                ran.append(step.name)
                future.set_result(contextvars.Context().run(function, step, *given, **named))
            except Exception as error:  # noqa: BLE001 - handed on, as by a process
                future.set_exception(error)
            finally:
                with suppress(KeyError):
                    del os.environ[STEP]
            return future

    @contextmanager
    def workers(jobs, **how):
        yield Here()

    monkeypatch.setattr(running, "workers", workers)
    for name, number in {"_FEWEST": 40, "_MOST": 40, "_TEST_TASKS": 10}.items():
        monkeypatch.setattr(chain, name, number)
    monkeypatch.delitem(sys.modules, "own", raising=False)  # of an earlier test's folder
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    save_tiny_llama(tmp_path / "untrained")
    return ran

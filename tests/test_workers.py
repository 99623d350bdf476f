"""Worker processes: what they leave behind, and errors that cannot travel."""

import os
import signal
import sys
import tempfile
from pathlib import Path

import pytest

from sweet_rl.errors import EpisodeError
from sweet_rl.processes import WorkerPool, work


class TwoWordsError(Exception):
    """Can be pickled, and not read again: its initializer wants two words."""

    def __init__(self, one, two):
        super().__init__(f"{one} {two}")


def start(word):
    """What the workers of these tests answer."""

    def where():
        Path("file").touch()
        return Path.cwd(), word

    def fail():
        raise TwoWordsError("no", "idea")

    return {"where": where, "fail": fail, "hang": lambda: signal.pause()}


@pytest.fixture
def pool(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with WorkerPool(__name__, ["hello"], workers=1, timeout_s=60) as pool:
        yield pool
    assert list(tmp_path.iterdir()) == []


def test_a_folder_goes_with_its_worker(pool, tmp_path):
    folder, word = pool.ask_now("where")
    assert word == "hello"
    assert (folder.parent, (folder / "file").exists()) == (tmp_path, True)
    with pytest.raises(EpisodeError, match=r"game_crashed: .*no answer within 0.5 s"):
        pool.ask_now("hang", timeout_s=0.5)
    assert not folder.exists()
    folder, _ = pool.ask_now("where")
    os.kill(pool._idle.queue[0]._process.pid, signal.SIGKILL)
    with pytest.raises(EpisodeError, match=r"game_crashed: .*died"):
        pool.ask_now("where")
    assert not folder.exists()


def test_an_error_that_cannot_be_read_by_the_other_side_is_told(pool):
    with pytest.raises(EpisodeError, match="game_failed: RuntimeError: TwoWordsError: no idea"):
        pool.ask_now("fail")
    assert pool.ask_now("where")[1] == "hello"


if __name__ == "__main__":
    assert sys.argv[3] == "hello"
    work(start)

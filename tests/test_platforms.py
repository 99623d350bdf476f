"""Other systems than Linux: what works there does, the rest says in one line what it needs."""

import sys

import pytest

from tests.conftest import ROOT, ran

NEEDS_LINUX = "needs Linux, for the isolation, and this is darwin."


@pytest.fixture
def macos(tmp_path):
    return lambda *lines: ran(sys.executable, ROOT / "tests/as_if_macos.py", *lines, cwd=tmp_path)


def test_dialogues_games_numbers_and_pages_to_look_at_need_no_linux(macos, tmp_path):
    games = "simulate_interactions --world twenty_questions twenty-questions g.jsonl --num_tasks 2 --quiet"
    played = "simulate_interactions mini:test a.jsonl --agent_model expert --env_model scripted --num_tasks 2 --quiet"
    done = macos(played, games, "evaluate_games g.jsonl", "view a.jsonl --export a.html", "runs .")
    assert done.returncode == 0, done.stderr
    assert NEEDS_LINUX not in done.stdout + done.stderr
    assert len((tmp_path / "a.jsonl").read_text().splitlines()) == 2
    assert "twenty" in (tmp_path / "g.jsonl").read_text()
    assert (tmp_path / "a.html").stat().st_size > 100_000


def test_the_list_of_stages_says_what_does_not_work(macos):
    *_, last = macos("--help").stdout.splitlines()
    needs = "grading code and rendering pages, which need Linux (docs/get_started.md)."
    assert last == f"On darwin all works but {needs}"


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("evaluate_code a.jsonl", "Grading code"),
        (
            "simulate_interactions --world html mini-web:test h.jsonl --num_tasks 1 --agent_model target --env_model scripted",
            "Rendering pages",
        ),
    ],
)
def test_what_needs_linux_says_so_and_what_to_do(macos, line, what):
    played = "simulate_interactions mini:test a.jsonl --agent_model oracle --env_model scripted --num_tasks 1 --quiet"
    done = macos(played, line)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    (said,) = [one for one in done.stderr.splitlines() if one.startswith("error: ")]
    assert said.startswith(f"error: {what} {NEEDS_LINUX}")
    assert "WSL" in said


def test_windows_itself_is_told_to_use_wsl(tmp_path):
    code = (
        "import sys; sys.modules['fcntl'] = None\n"
        "sys.argv = ['sweet-rl', 'simulate_interactions', 'mini:test', 'a.jsonl']\n"
        "from sweet_rl.cli.main import main; main()"
    )
    done = ran(sys.executable, "-c", code, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "error: Windows cannot lock files in the way that runs need: install and run sweet_rl in WSL (docs/get_started.md)."
    ]

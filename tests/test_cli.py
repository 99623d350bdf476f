"""The list of commands: every stage explains itself, quickly, and refuses what it does not know."""

import io
import json
import os
import platform
import re
import signal
import subprocess
import sys

import pytest

from sweet_rl.cli import help_text, load, stage_flags, stages
from sweet_rl.cli.main import Inert, drawn_on
from sweet_rl.cli.parse import read, values_of
from tests.conftest import ROOT, called

SCRIPTS = {path.stem: path for folder in ("scripts", "visualizers") for path in (ROOT / folder).glob("*.py")}
SCRIPTS["run_archer"], SCRIPTS["run"] = (
    SCRIPTS["run"],
    SCRIPTS.pop("run_pipeline"),
)  # ArCHer's README has run.py


def started(*command):
    return subprocess.run(
        [sys.executable, *map(str, command)], capture_output=True, text=True, timeout=60, check=False
    )


def test_every_script_is_a_command():
    assert SCRIPTS.keys() <= stages().keys()
    for name, path in SCRIPTS.items():
        assert f'run("{name}")' in path.read_text()
        assert stages()[name] in path.read_text()


@pytest.mark.parametrize("name", stages())
def test_help_explains_every_flag(name):
    function = load(name)
    text = help_text(name, function)
    for flag in stage_flags(function):
        found = re.search(rf"  {'' if flag.many else '--'}{flag.name}\b.*\n {{8}}\S", text)
        assert (found is None) == (flag.shown == "never"), flag.name


HELPS = """
import json, sys
from sweet_rl.cli import help_text, load, stages
found = {}
for name in stages():
    help_text(name, load(name))
    for heavy in {"torch", "transformers", "numpy", "aiohttp", "asyncio"} & sys.modules.keys():
        found.setdefault(heavy, name)
print(json.dumps(found))
"""


def test_no_help_loads_what_is_heavy():
    done = subprocess.run([sys.executable, "-c", HELPS], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {}, "what is heavy, and the first stage whose help loads it"


FAULTS = """
import ctypes, resource
from sweet_rl.cli.main import configure_process
configure_process()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
for _ in range(4):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [libc.malloc(24 << 20) for _ in range(3)]
    for block in blocks:
        ctypes.memset(block, 1, 24 << 20)
    for block in blocks:
        libc.free(block)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's malloc is told")
def test_memory_that_is_freed_is_kept_for_the_next_step_unless_a_person_says_otherwise():
    def pages(**environment):
        done = subprocess.run(
            [sys.executable, "-c", FAULTS],
            env=os.environ | environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return list(map(int, done.stdout.split()))

    assert max(pages()[1:]) < 100  # of the 18,432 of 4 KiB in 72 MiB
    assert min(pages(MALLOC_TRIM_THRESHOLD_="131072")) > 100


ABORTS = """
import atexit, os, sys
from sweet_rl.cli import main as cli

class Tensor:  # of a collective: as Python finalizes, a thread of torch's cannot let go of it
    def __del__(self, abort=os.abort):
        abort()

def stage():
    atexit.register(print, "closed")
    print("said")

sys.held, cli.load = Tensor(), lambda name: stage
cli.run("anything", [])
"""


@pytest.mark.parametrize(("group", "status"), [({"WORLD_SIZE": "2"}, 0), ({}, -signal.SIGABRT)])
def test_a_process_of_a_group_that_is_done_ends_without_finalizing_python(group, status):
    ended = subprocess.run(
        [sys.executable, "-c", ABORTS], env=os.environ | group, stdout=subprocess.PIPE, text=True, check=False
    )
    assert ended.returncode == status
    if group:
        assert ended.stdout == "said\nclosed\n"


def test_script_and_console_entry_are_the_same():
    from_script = started(SCRIPTS["generate_tasks"], "--help")
    from_entry = started("-m", "sweet_rl", "generate_tasks", "--help")
    from_dashes = called("generate-tasks", "-h")
    assert from_script.returncode == from_entry.returncode == 0
    assert from_script.stdout == from_entry.stdout == from_dashes.stdout
    overview = called("--help").stdout
    assert [name for name in stages() if name not in overview] == []


def test_help_is_short_and_help_all_is_whole():
    short, whole = called("train_dpo", "--help").stdout, called("train_dpo", "--help-all").stdout
    assert "--beta" in short
    assert "--zpg" not in short
    assert set(short.splitlines()[:-1]) < set(whole.splitlines())
    assert "--zpg" in whole
    assert "--ring_head_stride" not in whole


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("sweet-rl train_d", ["train_dpo"]),
        ("sweet-rl train_dpo --zero", ["--zero_stage"]),
        ("sweet-rl train_dpo --attention fl", ["flex_attention", "flash_attention_2"]),
        ("sweet-rl reflect p", ["plot"]),
        ("sweet-rl ref", ["reflect"]),
    ],
)
def test_shells_complete_stages_flags_and_choices(line, found, monkeypatch):
    monkeypatch.setenv("COMP_LINE", line)
    assert called("--complete").stdout.split() == found
    assert called("--completion", "bash").stdout.startswith("complete -o default")
    assert called("--completion", "tcsh").returncode == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["simulate_interaction"], "did you mean simulate_interactions?"),
        (["generate_tasks", "x", "--num_task", "3"], "unknown flag --num_task (did you mean --num_tasks?)"),
        (["generate_tasks", "-n", "3"], "write flags in full"),
        (["generate_tasks", "--num_tasks", "3"], "--output_path is needed"),
        (["generate_tasks", "x", "mini:test"], "'mini:test' belongs to no flag"),
        (["generate_tasks", "x", "--num_tasks", "3", "4"], "'4' belongs to no flag"),
        (["generate_tasks", "x", "--", "--trace"], "unknown flag --trace"),
        (["generate_tasks", "--output_path", "--overwrite"], "--output_path needs a value"),
        (["generate_tasks", "--output_path", "-x"], "One that begins with a hyphen is written"),
        (["generate_tasks", "x", "--nooverwrite=true"], "unknown flag --nooverwrite"),
        (["serve_simulator", "also"], "'also' belongs to no flag"),
    ],
)
def test_a_wrong_word_is_refused_before_anything_runs(arguments, message):
    done = called(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_name_with_control_characters_moves_no_terminal(tmp_path):
    """The title of the window, a bell: written out, on either stream."""
    name = tmp_path / "a\x1b]0;title\x07\x9bb.jsonl"
    made, refused = (called("generate_tasks", str(name), "--num_tasks", "1") for _ in range(2))
    assert (made.returncode, refused.returncode) == (0, 1)
    for text in (made.stdout, refused.stderr):
        assert r"a\x1b]0;title\x07\x9bb.jsonl" in text
        assert set(text) - {"\n"} == set(filter(str.isprintable, text))


def test_what_a_stage_draws_itself_reaches_the_terminal():
    screen = io.StringIO()
    stream = Inert(screen)
    print("tab\tand\x1b[2J", file=stream)
    drawn_on(stream).write("\x1b[2J")
    assert screen.getvalue() == "tab\tand\\x1b[2J\n\x1b[2J"
    assert stream.getvalue() == screen.getvalue()
    assert drawn_on(screen) is screen


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--num_tasks", "many"], "--num_tasks must be a whole number, got 'many'"),
        (["--num_tasks", "2.5"], "--num_tasks must be a whole number, got '2.5'"),
        (["--overwrite", "maybe"], "--overwrite is a switch: true or false, got 'maybe'"),
        (
            ["--source", "maxi:train"],
            (
                "--source 'maxi:train' is no world's list. There are mini, mini-web, guess-my-city, twenty-questions, "
                "alfworld, alfworld-data, auto-explore, taxi, dangerous-taxi, detective, lantern, webshop"
            ),
        ),
    ],
)
def test_a_wrong_value_is_named(tmp_path, arguments, message):
    done = called("generate_tasks", str(tmp_path / "f.jsonl"), *arguments)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {message}")  # other tests may have asked for further worlds


def test_values_are_read_by_the_flags_type_not_by_their_looks(tmp_path):
    done = called("generate_tasks", str(tmp_path / "1e3"), "--num_tasks=2", "--overwrite=false")
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "1e3").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["a", "b"], {"source": "a", "target": "b"}),
        (["b", "--source", "a"], {"source": "a", "target": "b"}),
        (["a", "--best", "--sure", "no"], {"source": "a", "best": True, "sure": False}),
        (["--source=--x=y", "--nosure", "--count", "-3"], {"source": "--x=y", "sure": False, "count": -3}),
        (["a", "--share", "1e-3"], {"source": "a", "share": 1e-3}),
        (["a", "--count", "1", "--count=2", "--target", "None"], {"source": "a", "count": 2, "target": None}),
    ],
)
def test_flags_and_words_become_the_values_of_a_function(arguments, expected):
    def stage(
        source: "str", target: "str | None" = None, *, best: "bool" = False, sure: "bool" = True,
        count: "int | None" = 1, share: "float" = 0.5,
    ): ...  # fmt: skip

    typed = read(stage, arguments)
    assert values_of(stage, typed) == expected
    assert typed.words == ()

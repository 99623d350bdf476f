"""Pipelines that are run: each stage once, again when its settings or inputs change, on after a kill -9."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sweet_rl.errors import ServiceError, UsageError
from sweet_rl.pipelines.pipeline import run
from sweet_rl.pipelines.running import run_steps
from sweet_rl.pipelines.steps import Step, in_rounds
from tests.conftest import ROOT, ran

STAGES = "tests.pipelines.stages"
WRITES = f"""
folder: out
values: {{text: a}}
stages:
  first:
    run: {STAGES}:write
    with: {{output: "${{folder}}/first.txt", text: "${{values.text}}"}}
  second:
    run: {STAGES}:write
    with: {{output: "${{folder}}/second.txt", source: "${{first.output}}", text: b}}
  other:
    run: {STAGES}:write
    with: {{output: "${{folder}}/other.txt", text: c}}
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (tmp_path / "p.yaml").write_text(WRITES)
    return tmp_path


@pytest.fixture
def plan(here, capfd):
    """What a run would do, by step."""

    def planned(*sets):
        capfd.readouterr()
        run("p.yaml", *sets, dry_run=True)
        return dict(re.findall(r"^\[\d/\d\] (\S+): (.*)$", capfd.readouterr().out, re.MULTILINE))

    return planned


def one_stage(here, function, flags):
    (here / "p.yaml").write_text(
        f"folder: out\nstages:\n  some:\n    run: {STAGES}:{function}\n    with: {{{flags}}}\n"
    )


def counts(folder):
    """How often each step ran."""
    return {path.stem: len(path.read_text().splitlines()) for path in folder.glob("*.log")}


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_step_works_in_a_process_that_is_set_up_as_a_stage_of_the_command_line_is(here):
    run_steps([Step("told", f"{STAGES}:told", (str(here / "told.txt"),))], here)
    assert (here / "told.txt").read_text() == "(10000, 20, 20)"


def test_only_what_a_change_concerns_is_run_again_and_nothing_is_overwritten(here, plan, capfd):
    out = here / "out"
    run("p.yaml")
    assert (out / "second.txt").read_text() == "ab"
    assert counts(out) == {"first": 1, "second": 1, "other": 1}
    assert set(plan().values()) == {"done"}

    run("p.yaml", "stages.second.with.text=d")  # a setting of the last one
    assert counts(out) == {"first": 1, "second": 2, "other": 1}
    assert (out / "second.txt").read_text() == "ad"
    said = capfd.readouterr().out
    assert "second: text was 'b', is 'd': runs again" in said
    assert "first: done" in said
    (old,) = (out / "replaced").glob("second-*/second.txt")
    assert old.read_text() == "ab"

    changed = ("values.text=e", "stages.second.with.text=d")
    run("p.yaml", *changed)  # of the first: both, not the other
    assert counts(out) == {"first": 2, "second": 3, "other": 1}
    assert (out / "second.txt").read_text() == "ed"
    assert len(list((out / "replaced").iterdir())) == 3

    (out / "second.txt").unlink()
    run("p.yaml", *changed)
    assert counts(out) == {"first": 2, "second": 4, "other": 1}


def test_in_a_copied_folder_nothing_of_the_first_one_is_touched(here, capfd):
    """What its records say was written is what lies there now, under the same names."""
    run("p.yaml")
    shutil.copytree("out", "copy")
    kept = contents(here / "out")
    run("p.yaml", "folder=copy", "values.text=z")
    assert contents(here / "out") == kept
    assert list((here / "copy/replaced").glob("first-*/first.txt"))
    texts = [(here / f"copy/{name}.txt").read_text() for name in ("first", "second", "other")]
    assert texts == ["z", "zb", "c"]
    assert f"first: {here}/copy/first.txt is now" in capfd.readouterr().out


def test_a_run_that_was_copied_or_moved_with_what_is_around_it_goes_on(here, plan, monkeypatch):
    source = "stages.first.with.source=in.txt"
    (here / "in.txt").write_text("0")
    run("p.yaml", source)
    shutil.copytree("out", "copy")
    (here / "copy/first.txt").write_text("changed")
    assert plan(source, "folder=copy")["second"] == f"would run again ({here}/copy/first.txt has changed)"
    assert plan(source, "folder=copy", "values.text=z")["first"] == "would run again (text was 'a', is 'z')"
    (here / "elsewhere").mkdir()
    for name in ("in.txt", "out", "p.yaml"):
        shutil.move(name, "elsewhere")
    monkeypatch.chdir("elsewhere")
    assert set(plan(source).values()) == {"done"}
    Path("in.txt").write_text("1")
    assert plan(source)["first"] == f"would run again ({here}/elsewhere/in.txt has changed)"


def test_an_interrupted_step_of_a_copied_folder_removes_what_it_wrote_there(here, monkeypatch):
    run("p.yaml")
    for record in (here / "out").glob("*.run.json"):
        record.write_text(record.read_text().replace('"finished"', '"running"'))
    shutil.copytree(here, here.with_name("copy"))
    kept = contents(here / "out")
    monkeypatch.chdir(here.with_name("copy"))
    run("p.yaml")
    assert counts(Path("out")) == {"first": 2, "second": 2, "other": 2}
    assert contents(here / "out") == kept


def test_a_step_whose_inputs_come_out_the_same_is_not_run_again(here, plan):
    run("p.yaml")
    assert set(plan("stages.first.with.times=1").values()) == {"done"}  # its default
    for times in (2, 3):
        run("p.yaml", "values.text=", f"stages.first.with.times={times}")
    assert counts(here / "out") == {"first": 3, "second": 2, "other": 1}


def test_a_step_runs_again_behind_one_whose_output_it_names_and_does_not_read(here, plan, capfd):
    named = WRITES.replace('source: "${first.output}"', "source: null")
    (here / "p.yaml").write_text(named.replace("text: b", 'text: "${first.output}"'))
    run("p.yaml")
    assert set(plan().values()) == {"done"}
    run("p.yaml", "values.text=e")
    assert counts(here / "out") == {"first": 2, "second": 2, "other": 1}
    assert "first has run since" in capfd.readouterr().out


def test_chains_that_join_a_round_let_nothing_run_again(here):
    """As more seeds of a study do: what a chain reads of the round before it is compared by digest."""

    def write(name, *, text="", source=None):
        source = str(here / "out" / f"{source}.txt") if source else None
        flags = {"output": str(here / "out" / f"{name}.txt"), "text": text, "source": source}
        return Step(name, f"{STAGES}:write", flags=flags)

    def study(*seeds):
        made = [[write(f"made-{seed}", text=seed)] for seed in seeds]
        return in_rounds([made, [[write(f"used-{seed}", source=f"made-{seed}")] for seed in seeds]])

    run_steps(study("1"), here / "out", fresh=False)
    run_steps(study("1", "2"), here / "out", fresh=False)
    assert counts(here / "out") == {"made-1": 1, "used-1": 1, "made-2": 1, "used-2": 1}
    assert (here / "out/used-2.txt").read_text() == "2"


def test_what_another_program_wrote_is_not_touched(here):
    (here / "out").mkdir()
    (here / "out/first.txt").write_text("mine")
    with pytest.raises(ServiceError, match="The stage first failed"):
        run("p.yaml")
    assert (here / "out/first.txt").read_text() == "mine"


def test_some_stages(here):
    run("p.yaml", until="second")
    assert counts(here / "out") == {"first": 1, "second": 1}
    run("p.yaml", only="other")
    assert counts(here / "out") == {"first": 1, "second": 1, "other": 1}
    with pytest.raises(UsageError, match=r"no stage 'secnd' \(did you mean second\?\)"):
        run("p.yaml", only="secnd")


def sweet_rl(*words, cwd):
    return ran(sys.executable, "-m", "sweet_rl", *words, cwd=cwd)


def test_a_failed_stage_is_named_with_its_command_and_nothing_else_is_said(here):
    words = "Error: The stage some failed: no such thing as x\nIts command: tests.*fails --output x"
    code = (
        "from pathlib import Path\nfrom sweet_rl.pipelines.running import Step, run_steps\n"
        f"run_steps([Step('some', '{STAGES}:fails', (), {{'output': 'x'}})], Path('out'))"
    )
    failed = ran(sys.executable, "-c", code, cwd=here)
    assert re.search(f"{words}\n$", failed.stderr), failed.stderr
    one_stage(here, "fails", "output: x")
    with pytest.raises(ServiceError, match=words.removeprefix("Error: ")):
        run("p.yaml")


@pytest.mark.parametrize(
    ("number", "code", "status"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGKILL, -9, "running")]
)
def test_a_signal_for_the_pipeline_alone_ends_its_stage_too(here, number, code, status):
    """With time to tidy up, unless the pipeline was killed: what it wrote is then free for the next one at once."""
    one_stage(here, "lasts", "output: out/number.txt")
    command = [sys.executable, "-m", "sweet_rl", "run", "p.yaml"]
    pipeline = subprocess.Popen(command, cwd=here, stdout=subprocess.DEVNULL, start_new_session=True)
    while pipeline.poll() is None and not (here / "out/number.txt").exists():
        time.sleep(0.05)
    pipeline.send_signal(number)
    assert pipeline.wait(60) == code
    stage = Path("/proc") / (here / "out/number.txt").read_text()
    while number == signal.SIGKILL and stage.exists():
        time.sleep(0.05)
    assert not stage.exists()
    assert json.loads((here / "out/number.txt.run.json").read_text())["status"] == status


def test_a_killed_pipeline_goes_on_where_it_was(here, plan):
    one_stage(here, "rows", "output: out/rows.txt, number: 6, kill_at: 3")
    assert sweet_rl("run", "p.yaml", cwd=here).returncode == -signal.SIGKILL
    again = sweet_rl("run", "p.yaml", cwd=here)
    assert again.returncode == 0, again.stderr
    assert "some: it was interrupted: resumes" in again.stdout
    words = [line.split()[1] for line in (here / "out/rows.txt").read_text().splitlines()]
    assert words == ["first"] * 4 + ["again"] * 2
    assert plan() == {"some": "done"}


@pytest.mark.parametrize(
    ("kill_at", "words", "made"),
    [(2, "resumes", ["first", "first", "again"]), (0, "runs again", ["first"] * 3)],
)
def test_a_stage_that_resumes_from_its_folder_is_told_which(here, plan, capfd, kill_at, words, made):
    """Its folder has a number, which the pipeline does not know; before its first checkpoint nothing is lost."""
    one_stage(here, "train", f"output: out/runs, until: 3, kill_at: {kill_at}")
    assert sweet_rl("run", "p.yaml", cwd=here).returncode == -signal.SIGKILL
    run("p.yaml")
    assert f"some: it was interrupted: {words}" in capfd.readouterr().out
    states = sorted((here / "out/runs").glob("*/checkpoint-*/trainer_state.json"))
    assert [state.read_text() for state in states] == made
    assert plan() == {"some": "done"}


def test_a_run_to_resume_that_the_pipeline_names_is_a_setting_of_its_stage(here, plan):
    one_stage(here, "train", "output: out, until: 1, resume: out/a")
    run("p.yaml")
    assert plan() == {"some": "done"}
    assert "resume was 'out/a', is 'out/b'" in plan("stages.some.with.resume=out/b")["some"]


DIALOGUES = """
folder: out
stages:
  tasks:
    run: generate_tasks
    with: {output_path: "${folder}/tasks.jsonl", num_tasks: 20}
  dialogues:
    run: simulate_interactions
    with: {agent_model: questioner, env_model: scripted, input_path: "${tasks.output_path}", num_tasks: 20, repeats: 8,
           batch_size: 1, output_path: "${folder}/rows.jsonl"}
  grades:
    run: evaluate_code
    with: {saved_path: "${dialogues.output_path}", k: 8}
"""


def histories(path):
    return [json.loads(one)["dialogue_history"] for one in path.read_text().splitlines() if one.endswith("}")]


@pytest.mark.slow
def test_real_stages_killed_in_the_middle_of_dialogues(here, plan):
    """Rows that were finished stay as they are; those that were not are played by the same command."""
    (here / "p.yaml").write_text(DIALOGUES)
    rows = here / "out/rows.jsonl"
    command = [sys.executable, "-m", "sweet_rl", "run", "p.yaml"]
    first = subprocess.Popen(command, cwd=here, stdout=subprocess.DEVNULL)
    while first.poll() is None and not (rows.exists() and rows.read_bytes().count(b"\n") >= 5):
        time.sleep(0.01)
    first.kill()
    first.wait()
    before = histories(rows)[:5]
    second = sweet_rl("run", "p.yaml", cwd=here)
    assert second.returncode == 0, second.stderr
    after = histories(rows)
    assert len(after) == 160
    assert all(one in after for one in before)
    assert (here / "out/rows.report.json").exists()
    assert set(plan().values()) == {"done"}
    changed = plan("stages.grades.with.timeout_s=2")
    assert changed["dialogues"] == "done"
    assert changed["grades"] == "would run again (test_timeout_s was 1.0, is 2.0)"
    assert set(plan("stages.dialogues.with.hostname=elsewhere").values()) == {"done"}  # says where, not what


ROUNDS = f"""
folder: out
iterations: 2
values: {{model: base.txt}}
next: {{model: "${{policy.output}}"}}
stages:
  tasks:
    run: {STAGES}:write
    once: true
    with: {{output: "${{folder}}/tasks.txt", text: t}}
  dialogues:
    run: {STAGES}:write
    with: {{output: "${{folder}}/rows.txt", source: "${{values.model}}", text: "${{tasks.output}} ${{round}}"}}
  policy:
    run: {STAGES}:write
    with: {{output: "${{folder}}/policy.txt", source: "${{dialogues.output}}"}}
"""


def test_the_next_round_begins_with_the_policy_of_the_last(here, capfd):
    (here / "p.yaml").write_text(ROUNDS)
    (here / "base.txt").write_text("base ")
    run("p.yaml", "iterations=1")
    capfd.readouterr()
    run("p.yaml")  # one more: what the first round made stays
    said = capfd.readouterr().out
    assert [f"] {name}: done" in said for name in ("tasks", "dialogues", "policy")] == [True] * 3
    record = json.loads((here / "out/round-2/rows.txt.run.json").read_text())
    assert record["step"]["name"] == "round-2/dialogues"
    assert (record["settings"]["source"], record["settings"]["text"]) == ("out/policy.txt", "out/tasks.txt 2")
    assert record["inputs"][0]["sha256"]
    assert (here / "out/round-2/policy.txt").read_text() == "base out/tasks.txt 1out/tasks.txt 2"
    assert not (here / "out/round-2/tasks.txt").exists()


def test_a_launcher_begins_a_stage_and_ends_with_the_pipeline(here, plan, capfd):
    launcher = here / "launch"
    launcher.write_text('#!/bin/sh\necho "launched $1"\nshift\nexec "$@"\n')
    launcher.chmod(0o755)
    if not Path(sys.executable).with_name("sweet-rl").exists():
        pytest.skip("sweet-rl is not installed as a program")
    (here / "p.yaml").write_text(
        f"folder: out\nlaunchers: {{generate_tasks: {launcher} eight}}\n"
        "stages:\n  tasks:\n    run: generate_tasks\n    with: {output_path: out/tasks.jsonl, num_tasks: 2}\n"
    )
    run("p.yaml")
    assert "launched eight\n" in capfd.readouterr().out
    assert plan() == {"tasks": "done"}

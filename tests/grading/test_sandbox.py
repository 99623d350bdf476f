"""The sandbox itself: its walls for every kind of user, its clock, its workers' lives and deaths, what it leaves."""

import contextlib
import gc
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from sweet_rl.errors import SandboxError
from sweet_rl.grading.code import CodeGrader
from sweet_rl.grading.sandbox import Job, Outcome, Program, Sandbox
from sweet_rl.grading.sandbox.guest import isolation
from sweet_rl.grading.sandbox.pool import check_protection
from sweet_rl.grading.sandbox.worker import MODULES, Worker, children_of
from sweet_rl.types import Task, Trajectory
from tests.conftest import ROOT

NOTHING = "pass"
LOOP = "def f(x):\n    while True:\n        pass\n"
SLEEP = "import time\ndef f(x):\n    time.sleep(x)\n    return x\n"
COMPUTE = """
import time
def f(seconds):
    while time.process_time() < seconds:
        pass
    return "done"
"""


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(workers=2, timeout_s=0.4) as sandbox:
        yield sandbox


def run(sandbox, source, *expressions):
    """Values of one program's tests."""
    (values,) = sandbox.run([Job("fixed", [Program(source, expressions)])])
    return values


def texts(values):
    return [value.text for value in values]


def outcomes(values):
    return [value.outcome.name for value in values]


def run_together(sandbox, *programs):
    """Texts of each program's values, all programs in one job."""
    (values,) = sandbox.run([Job("fixed", [Program(source, tests) for source, tests in programs])])
    left = iter(texts(values))
    return [[next(left) for _ in tests] for _, tests in programs]


def test_all_layers_are_named_and_active(sandbox):
    assert {"Landlock", "seccomp"} & set(sandbox.layers)
    assert "namespaces" in sandbox.protection or "Landlock" in sandbox.protection
    forbidden = "open('/etc/passwd').read()", "open('/proc/self/environ').read()", "open('/var/left', 'w')"
    values = run(sandbox, NOTHING, *forbidden)
    assert outcomes(values) == ["ERROR"] * 3
    if shutil.which("unshare") and subprocess.run(["unshare", "--mount", "true"]).returncode == 0:
        assert "mount" in sandbox.layers
        assert "FileNotFoundError" in values[0].text  # it is not only out of reach: it is not there


def test_folders_of_one_user_are_told_from_those_of_all(tmp_path):
    tmp_path.chmod(0o755)
    Path(tmp_path, "inner").mkdir(mode=0o700)
    assert isolation._open_to_all("/usr/lib")
    assert not isolation._open_to_all(f"{tmp_path}/inner")


def test_landlock_hides_a_package_among_others(tmp_path):
    """Without mounts: what lies beside this library may be imported, the library may not."""
    for name in ("shown", "hidden"):
        (tmp_path / "lib" / "site" / name).mkdir(parents=True)
        (tmp_path / "lib" / "site" / name / "__init__.py").write_text(f"name = {name!r}")
    (tmp_path / "lib" / "beside.txt").write_text("beside")
    (tmp_path / "lib" / "site" / "link").symlink_to("/etc")
    code = f"""
import os
from sweet_rl.grading.sandbox.guest import isolation
isolation.prctl(isolation.PR_SET_NO_NEW_PRIVS, 1)
lib = {str(tmp_path / "lib")!r}
if isolation.restrict([lib], [lib + "/site/hidden"], None, "/dev/null"):
    for path in "site/shown/__init__.py", "beside.txt", "site/hidden/__init__.py", "site/link/passwd":
        try:
            print(open(lib + "/" + path).read())
        except PermissionError:
            print("refused")
    print(sorted(os.listdir(lib + "/site")))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    if not done.stdout:
        pytest.skip("this kernel has no Landlock")
    names = "['hidden', 'link', 'shown']"
    assert done.stdout.split("\n")[:5] == ["name = 'shown'", "beside", "refused", "refused", names]


@pytest.mark.parametrize(
    ("layers", "missing"),
    [
        ("rlimits", "files, the network, other processes"),
        ("seccomp rlimits", "files"),
        ("Landlock rlimits", "the network, other processes"),
        ("mount network rlimits", "other processes"),
        ("Landlock seccomp", ""),
        ("mount network process", ""),
    ],
)
def test_too_little_protection_is_refused(layers, missing):
    check_protection(layers.split(), unsafe=True)
    refused = pytest.raises(SandboxError, match=f"kept away from {missing} here.*--unsafe_no_sandbox")
    with refused if missing else contextlib.nullcontext():
        check_protection(layers.split(), unsafe=False)


def test_a_refused_sandbox_leaves_no_process(monkeypatch):
    before = _state()
    monkeypatch.setattr(Worker, "layers", lambda self: ["rlimits"])
    with pytest.raises(SandboxError):
        Sandbox(workers=2)
    assert _state() == before


def test_a_hanging_test_costs_its_time_once_and_the_others_count(sandbox):
    source = "def f(x):\n    while x < 8:\n        pass\n    return x\n"
    started = time.monotonic()
    values = run(sandbox, source, *(f"f({n})" for n in range(10)))
    assert outcomes(values) == ["TIMEOUT"] * 8 + ["VALUE"] * 2
    assert "0.4 s" in values[0].text
    assert "0.0133 s" in values[1].text
    assert time.monotonic() - started < 0.4 * 8


NAPS = """
def g(x):
    while True:
        time.sleep(0.018)
        end = time.process_time() + 0.002
        while time.process_time() < end:
            pass
"""
THREADS = """
import hashlib, threading
def work():
    for _ in range(2000):
        hashlib.sha256(bytes(10**6)).digest()
def g(x):
    for _ in range(8):
        threading.Thread(target=work, daemon=True).start()
    time.sleep(60)
"""


@pytest.mark.parametrize(
    ("source", "tests", "ends"),
    [
        (SLEEP, ["f(0.2)", "f(60)", "f(0)"], "VALUE TIMEOUT VALUE"),
        (COMPUTE + "def g(seconds):\n    f(seconds)\n    time.sleep(60)\n", ["g(0.1)"], "TIMEOUT"),
        ("import time" + NAPS, ["g(1)"], "TIMEOUT"),  # which waits for no core while it sleeps
        ("import time" + THREADS, ["g(1)"], "TIMEOUT"),  # each of which counts
    ],
    ids=["sleep takes time", "a little computing buys no sleep", "a sleeper among busy ones", "many threads"],
)
def test_what_takes_time_is_over_in_time(sandbox, source, tests, ends):
    started = time.monotonic()
    assert outcomes(run(sandbox, source, *tests)) == ends.split()
    assert time.monotonic() - started < 0.4 * 7  # 1.5 times the limit, and what a busy machine adds


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs to choose its cores")
def test_a_starved_machine_fails_no_answer():
    """Six answers that need two thirds of the limit share one core with each other: four times the limit each."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        with Sandbox(workers=6, timeout_s=0.3) as sandbox:
            busy = [Job("fixed", [Program(COMPUTE, ["f(0.2)"])])] * 6
            values = [value for (value,) in sandbox.run(busy)]
    finally:
        os.sched_setaffinity(0, cores)
    assert texts(values) == ["'done'"] * 6


def test_we_sleep_while_an_answer_computes(sandbox):
    used = time.process_time()
    run(sandbox, SLEEP, "f(0.3)", "f(0.3)", "f(0.3)")
    assert time.process_time() - used < 0.1


WHO = "import os\ndef f():\n    return os.stat('/').st_ctime_ns\n"
"""The worker's birth, which tells it from all others."""


def test_no_fixed_job_comes_into_a_worker_that_has_seen_references(sandbox):
    if "mount" not in sandbox.layers:
        pytest.skip("workers look alike without a root of their own")
    fixed, published = Job("fixed", [Program(WHO, ["f()"])]), Job("published", [Program(WHO, ["f()"])])
    with Sandbox(workers=1, timeout_s=5) as one:
        first, _, second, third = map(texts, one.run([fixed, published, fixed, fixed]))
        assert second == third != first
        (after,) = one.run([fixed])
        assert after[0].text != ""


def test_fixed_and_published_jobs_never_run_at_the_same_time_and_all_fixed_grades_come_first(monkeypatch):
    busy_with, begun, give = [], [], Sandbox._give

    def spy(self, worker, work):
        give(self, worker, work)
        begun.append(work.job.kind)
        busy_with.append({other.work.job.kind for other in self._workers if other.work})

    monkeypatch.setattr(Sandbox, "_give", spy)
    nap = "def f():\n    import time\n    time.sleep(0.01)\n    return 1\n"
    kinds = ["fixed", "published", "fixed", "fixed", "published", "published", "published", "fixed"]
    task = Task("t", "", NOTHING, nap, {"test1": "f()"}, {})
    with Sandbox(workers=3, timeout_s=5) as three:
        results = list(three.run(Job(kind, [Program(nap, ["f()"], (), nap)]) for kind in kinds))
        begun.clear()
        assert len(list(CodeGrader(three).grade_all([Trajectory(task, (), nap)] * 3))) == 3
    wanted = {"fixed": Outcome.VALUE, "published": Outcome.PASSED}
    assert [value.outcome for (value,) in results] == [wanted[kind] for kind in kinds]
    assert all(len(kinds) == 1 for kinds in busy_with)
    assert begun == sorted(begun)  # before an answer can read its reference


def test_results_come_in_the_order_of_jobs_and_programs(sandbox):
    source = "import time\ndef f(n):\n    time.sleep(0.01 * (n % 7 == 0))\n    return n\n"
    jobs = (Job("fixed", [Program(source, [f"f({n})", "f(0)"])]) for n in range(100))
    assert [values[0].text for values in sandbox.run(jobs)] == [str(n) for n in range(100)]
    (values,) = sandbox.run([Job("fixed", [Program(f"x = {n}", ["x", "x + 1"] * n) for n in range(4)])])
    assert texts(values) == ["1", "2", *["2", "3"] * 2, *["3", "4"] * 3]


LEAVINGS = {
    "a builtin": "import builtins\nbuiltins.divmod = max\n",
    "a new builtin": "import builtins\nbuiltins.mark = 1\n",
    "a module's state": "import random\nrandom.mark = 1\n",
    "a module": "import sys, types\nsys.modules['colours'] = types.ModuleType('colours')\n",
    "a recursion limit": "import sys\nsys.setrecursionlimit(90)\n",
    "a thread": "import threading, time\nthreading.Thread(target=time.sleep, args=(9,), daemon=True).start()\n",
}
LOOK = """
import builtins, sys, _thread
def f(x):
    clean = divmod(7, 2) == (3, 1) and not hasattr(builtins, 'mark') and sys.getrecursionlimit() > 90
    return clean and 'random' not in sys.modules and 'colours' not in sys.modules and _thread._count() == 0
"""


@pytest.mark.parametrize("name", LEAVINGS)
def test_what_a_reference_leaves_does_not_reach_the_next_one(sandbox, name):
    leaves = LEAVINGS[name] + "def f(x):\n    return x\n", ["f(1)", "f(2)"]
    assert run_together(sandbox, leaves, (LOOK, ["f(1)"])) == [["1", "2"], ["True"]]


def test_a_reference_that_dies_hangs_or_fills_the_memory_costs_the_next_one_nothing(sandbox):
    hoard = "import functools\nfunctools.kept = b'x' * 380_000_000\ndef f(x):\n    return x\n"
    needs = "def f(x):\n    return len(b'y' * 380_000_000)\n"
    dies = "import os\ndef f(x):\n    if x == 2:\n        os._exit(1)\n    return x\n"
    greedy = "def f(x):\n    return b'x' * 10**10\n"
    ended, no_memory = "the process ended", "MemoryError: "
    with Sandbox(workers=2, timeout_s=5) as patient:
        for programs, wanted in (
            ([(hoard, ["f(1)"]), (needs, ["f(1)", "f(2)"])], [["1"], ["380000000"] * 2]),
            ([(dies, ["f(1)", "f(2)", "f(3)"]), (dies, ["f(4)", "f(2)"])], [["1", ended, "3"], ["4", ended]]),
            ([(LOOK, ["f(1)"]), (greedy, ["f(1)"]), (LOOK, ["f(1)"])], [["True"], [no_memory], ["True"]]),
        ):
            assert run_together(patient, *programs) == wanted
    hangs = [("f = abs", ["f(-1)"]), (LOOP, ["f(1)"]), ("f = abs", ["f(-2)"])]
    assert run_together(sandbox, *hangs) == [["1"], ["no value within 0.4 s"], ["2"]]


def test_a_job_that_takes_longer_than_a_moment_is_not_begun_again(sandbox):
    source = "import builtins, time\ndef f(s):\n    time.sleep(s)\n    builtins.n = getattr(builtins, 'n', 0) + 1\n    return builtins.n\n"
    assert texts(run(sandbox, source, "f(0)", "f(0.1)", "f(0.1)")) == ["1", "2", "3"]


def test_a_worker_gets_every_file_of_the_guest():
    files = Path(isolation.__file__).parent.glob("*.py")
    assert sorted(name.removeprefix(".") or "__init__" for name in MODULES) == sorted(
        file.stem for file in files
    )


def test_a_caller_that_stops_listening_leaves_the_sandbox_usable(sandbox):
    endless = sandbox.run(Job("fixed", [Program(source, ["f(1)"])]) for source in ["f = abs", *[LOOP] * 50])
    assert next(endless)[0].text == "1"
    endless.close()
    assert run(sandbox, "f = abs", "f(-2)")[0].text == "2"
    used = sum(map(_cpu_ticks, descendants(os.getpid())))
    time.sleep(0.2)
    assert sum(map(_cpu_ticks, descendants(os.getpid()))) - used < 5  # of a hundred a second: no loop goes on


def test_large_jobs_and_large_values_pass_the_wall(sandbox):
    source = "x = '" + "y" * 3_000_000 + "'"
    assert run(sandbox, source, "len(x)")[0].text == "3000000"
    (value,) = run(sandbox, NOTHING, "'é…' * 10**6")
    assert value.outcome is Outcome.VALUE
    assert len(value.text) < 20_000


def test_every_test_gets_a_fresh_definition_and_every_job_a_fresh_process_of_the_same_order(sandbox):
    source = "import builtins\nif hasattr(builtins, 'mark'): raise SystemExit\nx = []\ndef f():\n    x.append(1)\n    return len(x)\n"
    assert texts(run(sandbox, source, "f()", "f()")) == ["1", "1"]
    run(sandbox, "import builtins\nbuiltins.mark = 1", "1")
    assert run(sandbox, source, "f()")[0].text == "1"
    jobs = [Job("fixed", [Program(NOTHING, ["list({'a', 'b', 'c', 'd', 'e', 'f'})"])])] * 20
    assert len({values[0].fingerprint for values in sandbox.run(jobs)}) == 1


SEARCH = """
import gc, sys
def f(prefix):
    frames, found = [sys._getframe()], 0
    while frames[-1].f_back:
        frames.append(frames[-1].f_back)
    texts = [repr(frame.f_locals) for frame in frames] + [repr(o)[:10**5] for o in gc.get_objects()]
    return sum(prefix + "_returns_4711" in text for text in texts)
"""


def test_an_answer_finds_nothing_of_earlier_jobs_in_its_memory():
    with Sandbox(workers=1, timeout_s=5) as sandbox:
        run(sandbox, "def f(x):\n    'the_reference_returns_4711'\n    return 1\n", "f(1)")
        assert run(sandbox, SEARCH, "f('the_reference')")[0].text == "0"


def test_no_worker_is_replaced_by_one_with_less_protection(monkeypatch):
    with Sandbox(workers=1) as sandbox:
        monkeypatch.setattr(Worker, "next_child", lambda self: None)
        monkeypatch.setattr(Worker, "layers", lambda self: ["rlimits"])
        with pytest.raises(SandboxError, match="machine's settings change"):
            run(sandbox, NOTHING, "1")


def test_answers_that_kill_their_workers_are_blamed_and_the_run_goes_on(monkeypatch):
    """Jobs with a word in them kill the worker, as an answer would that has found a way."""
    give = Sandbox._give

    def spy(self, worker, work):
        give(self, worker, work)
        if any("killer" in program.source for program in work.job.programs):
            (zygote,) = children_of(worker._process.pid)
            os.kill(zygote, signal.SIGKILL)

    monkeypatch.setattr(Sandbox, "_give", spy)
    good = Job("fixed", [Program("f = abs", ["f(-1)"])])
    bad = Job("fixed", [Program("import time as killer", ["killer.sleep(60)", "killer.sleep(61)"])])
    with Sandbox(workers=1, timeout_s=30) as sandbox:
        first, *killed, last = sandbox.run([good, *[bad] * 7, good])  # 14 deaths
        assert texts([*first, *last]) == ["1", "1"]
        assert [outcomes(values) for values in killed] == [["CRASH"] * 2] * 7


def test_nothing_is_left_behind():
    before, others = _state(), {*children_of(os.getpid())}
    with Sandbox(workers=2, timeout_s=0.1) as sandbox:
        workers = {*children_of(os.getpid())} - others
        run(sandbox, LOOP, "f(1)")
        run(sandbox, "import os\nos._exit(3)", "1")
        processes = workers.union(*map(descendants, workers))
    gc.collect()
    assert len(processes) >= 4
    assert gone(processes)
    assert _state() == before


def test_nothing_is_left_when_we_are_killed():
    script = f"""
        from sweet_rl.grading.sandbox import Job, Program, Sandbox
        sandbox = Sandbox(workers=2, timeout_s=60)
        jobs = [Job("fixed", [Program({LOOP!r}, ["f(1)"])]), Job("fixed", [Program({SLEEP!r}, ["f(60)"])])]
        print("ready", flush=True)
        list(sandbox.run(jobs))
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as us:
        assert us.stdout.readline() == "ready\n"
        wait_until(lambda: any(_cpu_ticks(process) > 20 for process in descendants(us.pid)))
        processes = descendants(us.pid)
        us.kill()
    assert len(processes) >= 4
    assert gone(processes)


def descendants(process):
    """All processes below this one."""
    found = set()
    for child in children_of(process):
        found |= {child} | descendants(child)
    return found


def _stat(process):
    """The state, and what follows it, of a process; a zombie where there is none."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["X", *["0"] * 20]


def _cpu_ticks(process):
    return int(_stat(process)[11])


def wait_until(condition, timeout_s=20):
    deadline = time.monotonic() + timeout_s
    while not (met := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return met


def gone(processes):
    return wait_until(lambda: all(_stat(process)[0] in "ZX" for process in processes), timeout_s=5)


def _state():
    """What a sandbox could leave in our process and on the machine: descriptors, children, mounts."""
    mounts = Path("/proc/self/mountinfo").read_text().count("\n")
    return len(os.listdir("/proc/self/fd")), {*children_of(os.getpid())}, mounts

"""Nothing hangs and nothing honest is lost, in whatever state a worker, a child or we ourselves are."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from sweet_rl.errors import SandboxError
from sweet_rl.grading.sandbox import Job, Outcome, Program, Sandbox, pool, worker
from sweet_rl.grading.sandbox.guest.isolation import MOST_THREADS
from sweet_rl.grading.sandbox.pool import WakingTime
from sweet_rl.grading.sandbox.worker import TestClock, Worker, children_of
from tests.conftest import ROOT
from tests.grading.attacks import TABLE
from tests.grading.environments import ENVIRONMENTS, why_not
from tests.grading.guards import GUARDS, WITHOUT
from tests.grading.stops import WAYS, lost

ABS = Job("fixed", [Program("f = abs", ["f(-1)"])])
SLEEPS = Job("fixed", [Program("import time", ["time.sleep(60)"])])

THREADS = """
import threading, time
def f(x):
    threading.stack_size(32768)
    try:
        for n in range(20000):
            threading.Thread(target=time.sleep, args=(9,), daemon=True).start()
    except RuntimeError:
        return n
    time.sleep(9)
"""


def texts(sandbox, *jobs):
    return [values[0].text for values in sandbox.run(jobs)]


def zygote_of(sandbox):
    """The process of the first worker that forks the children, and its launcher where they are two."""
    one = sandbox._workers[0]
    return children_of(one._process.pid)[0] if one._inner else one._process.pid


@pytest.fixture()
def one_worker(monkeypatch):
    monkeypatch.setattr(pool, "PATIENCE_S", 0.5)
    with Sandbox(workers=1, timeout_s=0.3) as sandbox:
        yield sandbox


def test_a_worker_that_gives_no_next_child_is_replaced(one_worker):
    first = zygote_of(one_worker)
    assert texts(one_worker, ABS) == ["1"]
    os.kill(first, signal.SIGSTOP)
    assert texts(one_worker, ABS, ABS, ABS) == ["1"] * 3
    assert zygote_of(one_worker) != first


def test_a_worker_that_does_not_come_up_is_replaced_but_not_for_ever(one_worker, monkeypatch):
    sleeps, start_code = ["import time; time.sleep(99)"] * 2, worker.start_code
    monkeypatch.setattr(worker, "start_code", lambda number: sleeps.pop() if sleeps else start_code(number))
    os.kill(zygote_of(one_worker), signal.SIGKILL)
    assert texts(one_worker, ABS, ABS) == ["1"] * 2
    assert not sleeps
    monkeypatch.setattr(pool, "PATIENCE_S", 0.1)
    monkeypatch.setattr(worker, "start_code", lambda number: "import time; time.sleep(2)")
    os.kill(zygote_of(one_worker), signal.SIGKILL)
    with pytest.raises(SandboxError, match="died in a row"):
        texts(one_worker, ABS, ABS)


def test_a_worker_whose_children_cannot_work_is_not_asked_for_ever(one_worker):
    """They die with whatever they are given, after the death of the first worker."""
    give = one_worker._give

    def kill(one, work):
        while one.child_number() is None:  # it is about to begin
            time.sleep(0.01)
        os.kill(one.child_number(), signal.SIGKILL)
        give(one, work)

    os.kill(zygote_of(one_worker), signal.SIGKILL)
    one_worker._give = kill
    with pytest.raises(SandboxError, match="died in a row"):
        texts(one_worker, ABS, ABS)


def test_a_worker_without_room_for_a_child_ends_itself_and_no_other():
    """A fork that fails gives -1, and to end -1 is to kill all that the user has."""
    script = """
        import socket
        from sweet_rl.grading.sandbox.guest import isolation, run
        isolation.fork = lambda: -1
        isolation.end = lambda child: print("kills", child, flush=True)
        control, outside = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        outside.send(run.NEXT)
        outside.shutdown(socket.SHUT_WR)
        pairs = isolation.Pairs()
        run._serve(control, pairs, pairs.make, [], bytes, alone=False)
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")


def test_a_child_that_does_not_take_its_job_costs_the_job_nothing(one_worker):
    assert texts(one_worker, ABS) == ["1"]
    one = one_worker._workers[0]
    while one.channel is None:
        one_worker._wait()
    os.kill(one.child_number(), signal.SIGSTOP)
    long = Job("fixed", [Program("x = '" + "y" * 3_000_000 + "'", ["len(x)"])])
    assert texts(one_worker, long, ABS) == ["3000000", "1"]


def test_a_child_that_stays_stopped_is_given_up_in_the_end(one_worker):
    run = one_worker.run([SLEEPS, ABS])
    give = one_worker._give

    def stop(one, work):
        give(one, work)
        os.kill(one.child_number(), signal.SIGSTOP)
        one_worker._give = give

    one_worker._give = stop
    started = time.monotonic()
    assert [values[0].outcome for values in run] == [Outcome.TIMEOUT, Outcome.VALUE]
    assert 2.5 < time.monotonic() - started < 60  # ten times the limit, not one and a half times


def test_a_job_that_no_child_can_take_is_given_up():
    with Sandbox(workers=1, timeout_s=5, memory_mb=100) as sandbox:
        jobs = [Job("fixed", [Program("x = '" + "y" * 90_000_000 + "'", ["len(x)"])]), ABS]
        assert texts(sandbox, *jobs) == ["the process ended", "1"]


def test_closing_waits_for_nobody(one_worker):
    os.kill(zygote_of(one_worker), signal.SIGSTOP)
    one = one_worker._workers[0]
    started = time.monotonic()
    one.close(patience_s=0)
    assert time.monotonic() - started < 4
    assert one._process.returncode is not None


def test_a_stop_is_no_time(monkeypatch):
    seconds = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: seconds[0])
    waking = WakingTime()
    seconds[0] += 0.03
    assert waking.now() == pytest.approx(0.03)
    seconds[0] += 0.4
    assert waking.now(slept_s=0.5) == pytest.approx(0.43)
    seconds[0] += 3600  # of which half a second was meant
    assert waking.now(slept_s=0.5) == pytest.approx(0.98)


def test_a_process_that_somebody_has_stopped_does_not_wait():
    clock = TestClock()
    with subprocess.Popen(["sleep", "60"]) as process:
        clock.start(0.0, process.pid)
        os.kill(process.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        clock.look(1.0, process.pid)
        stopped_s = clock.waited_s
        os.kill(process.pid, signal.SIGCONT)
        os.waitid(os.P_PID, process.pid, os.WCONTINUED)
        clock.look(2.0, process.pid)
        process.kill()
    assert (stopped_s, clock.waited_s) == (0.0, pytest.approx(1.0, abs=0.2))


@pytest.mark.parametrize("way", WAYS)
def test_no_answer_is_lost_to_a_stop(way):
    assert lost(way, answers=12, stops=3, limit_s=0.5) == 0


def inside(environment, script):
    """What a script prints in another environment."""
    if reason := why_not(environment):
        pytest.skip(reason)
    command = ["-m", "tests.grading.environments", environment, sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("environment", ["user", "neither", "container"])
def test_the_table_of_attacks_holds(environment):
    """In the one that the tests run in, `test_hostile.py` holds it row by row.

    Of what tests mean by names, which no environment decides, some rows only: the command has them all.
    """
    if reason := why_not(environment):
        pytest.skip(reason)
    if environment == "user" and os.geteuid() != 0:
        pytest.skip("this is the environment that the tests run in")
    only = [name for name in TABLE if not name.startswith(("names", "more")) or name == "names: helpers"]
    command = [sys.executable, "-m", "tests.grading.attacks", "--environment", environment, "--only", *only]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ("namespaces" in done.stdout.split("\n")[0]) == (environment == "user")


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_threads_are_bounded_and_a_pool_of_32_works_beside_a_busy_desktop(environment):
    """By the kernel where it counts them for a worker alone; else the child ends."""
    printed = inside(
        environment,
        """
        import subprocess
        from sweet_rl.grading.sandbox import Job, Program, Sandbox
        from tests.grading.attacks import TABLE
        from tests.grading.test_watch import THREADS
        others = [subprocess.Popen(["sleep", "100"]) for _ in range(100)]
        with Sandbox(workers=2, timeout_s=5) as sandbox:
            jobs = [Job("fixed", [Program(case.answer, case.tests)]) for case in TABLE["legal: threads"] if "pool" in case.name or "at once" in case.name]
            print([value.text for values in sandbox.run(jobs) for value in values])
            ((value,),) = sandbox.run([Job("fixed", [Program(THREADS, ["f(0)"])])])
            print(value.text)
        for other in others:
            other.kill()
        """,
    )
    pools, words = printed.splitlines()
    assert pools == str(["4", "6"] * 5)
    assert words == f"more than {MOST_THREADS} threads" or int(words) < MOST_THREADS
    assert words.isdigit() == (environment in {"root", "user", "container"})


def test_workers_do_not_wait_for_terminals():
    with Sandbox(workers=1) as sandbox:
        assert os.getsid(zygote_of(sandbox)) != os.getsid(0)


def test_every_wait_of_a_worker_process_ends(monkeypatch):
    monkeypatch.setattr(worker, "PATIENCE_S", 0.3)
    monkeypatch.setattr(worker, "start_code", lambda number: "import time; time.sleep(99)")
    silent = Worker(2**29, cpu_s=10)
    with pytest.raises(SandboxError, match="does not start"):
        silent.layers()
    assert silent.next_child() is None
    assert not silent.has_died()
    silent.close(patience_s=0)


@pytest.mark.slow
@pytest.mark.parametrize("environment", ["root" if os.geteuid() == 0 else "user", "neither"])
def test_each_guard_of_the_sandbox_holds_a_row_of_the_table(environment):
    """Taken out, the row turns red: `python -m tests.grading.guards` says which."""
    if reason := why_not(environment):
        pytest.skip(reason)
    command = [sys.executable, "-m", "tests.grading.guards", "--environment", environment]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    here = [guard for guard in GUARDS if (guard.where == WITHOUT) == (environment == "neither")]
    assert done.stdout.count("red ") == len(here) > 3


def test_without_namespaces_a_name_can_be_asked_about_and_nothing_more():
    """What docs/grading.md says is open there, is; where a kernel closes it, the page can promise more."""
    printed = inside(
        "neither",
        """
        from sweet_rl.grading.sandbox import Job, Program, Sandbox
        tests = ["os.stat('/etc/passwd').st_size > 0", "os.path.exists('/etc/no-such-file')"]
        tests += ["os.stat('/proc/self/task').st_nlink", "os.getpid()"]
        tests += ["open('/etc/passwd')", "os.listdir('/etc')", "os.readlink('/proc/self/exe')", "os.open('/etc', 0x200000)"]
        with Sandbox(workers=1) as sandbox:
            (values,) = sandbox.run([Job("fixed", [Program("import os", tests)])])
        print([value.text.split(":")[0] for value in values])
        """,
    )
    assert printed == f"{['True', 'False', '3', '0', *['PermissionError'] * 4]}\n"

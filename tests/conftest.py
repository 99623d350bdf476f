"""Fixtures that every room's tests use."""

import asyncio
import inspect
import io
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
from hypothesis import HealthCheck, settings

from sweet_rl.chat.formats import SMOLLM2, folder_of, problem_of
from sweet_rl.cli.main import configure_process, main

ROOT = Path(__file__).resolve().parent.parent

os.environ.setdefault("OMP_NUM_THREADS", "1")  # tests run side by side; torch would take all cores for each
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # no name of a test is there, and asking takes half a minute

configure_process()
settings.register_profile("tests", suppress_health_check=[HealthCheck.too_slow])  # of a machine that is busy
settings.load_profile("tests")

# A shell starts background jobs with Ctrl-C ignored, and children inherit that; tests send Ctrl-C to theirs.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def ran(*command, timeout: float = 100, **how) -> subprocess.CompletedProcess:
    """A command that has ended, with what it printed."""
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout, **how)


@pytest.fixture(scope="session")
def shared() -> Path:
    """Goldens and real data, which are not part of the project; tests that need them skip without."""
    folder = Path(os.environ.get("SWEET_RL_SHARED", ROOT.parent / "shared"))
    if not (folder / "goldens").is_dir():
        pytest.skip(f"no goldens at {folder}; point SWEET_RL_SHARED at them to run this test")
    return folder


@pytest.hookimpl(optionalhook=True)  # the integrations' environments have no xdist
def pytest_xdist_auto_num_workers() -> int:
    """Half as many again as there are cores: tests wait for servers, clocks and each other a third of their time."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + (cores + 1) // 2


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Tests may be coroutines: each has an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames  # without fixtures that are used by their names only
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Groups first, as they are long and none is to be left over; tests of what is not there skip."""
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)
    lacking = {}
    if problem := problem_of(folder_of(SMOLLM2)):
        lacking["smollm2"] = f"{SMOLLM2} {problem}: run `sweet-rl fetch_model {SMOLLM2}`"
    for server in ("vllm", "llama"):
        if not os.environ.get(f"SWEET_RL_{server.upper()}_PYTHON"):
            lacking[server] = f"needs {server} in its own environment: run `make test-{server}`"
    for item in items:
        for marker in lacking.keys() & item.keywords:
            item.add_marker(pytest.mark.skip(reason=lacking[marker]))


@pytest.fixture(scope="session")
def browser(tmp_path_factory) -> Iterator:
    binary = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)
    driver_binary = shutil.which("chromedriver")
    if binary is None or driver_binary is None:
        message = "no chromium and chromedriver on the PATH"
        if os.environ.get("SWEET_RL_REQUIRE_BROWSER") == "1":
            pytest.fail(message)
        pytest.skip(message)
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = binary
    profile = tmp_path_factory.mktemp("chromium")
    flags = ["headless=new", "disable-gpu", "no-first-run", "disable-background-networking", "disable-sync"]
    flags += ["disable-component-update", "disable-extensions", "force-prefers-reduced-motion"]
    flags += [
        "in-process-gpu",
        f"user-data-dir={profile}",
        "window-size=1200,700",
    ]  # one process less to start
    if os.geteuid() == 0:
        flags.append("no-sandbox")  # Chromium refuses to start as root with its sandbox
    for flag in flags:
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(driver_binary))
    yield driver
    driver.quit()


def called(*arguments):
    """A command line of `sweet-rl` in this process: its exit status, and what it prints."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    argv = mock.patch.object(sys, "argv", ["sweet-rl", *map(str, arguments)])
    with argv, redirect_stdout(out), redirect_stderr(err):
        try:
            main()
            status = 0
        except SystemExit as ended:
            status = ended.code or 0
    stdout, stderr = (stream.buffer.getvalue().decode() for stream in (out, err))
    return SimpleNamespace(returncode=status, stdout=stdout, stderr=stderr)

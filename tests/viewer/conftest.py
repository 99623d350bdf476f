"""One headless Chromium for all browser tests, and the sample file in the forms in which they look at it."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from sweet_rl.records import load_trajectories, trajectories_from_rows
from sweet_rl.types import Trajectory
from sweet_rl.viewer.code import CodeContents
from sweet_rl.viewer.export import export_html
from tests.viewer.samples import sample_rows, write_rows


@pytest.fixture(scope="session")
def trajectories() -> list[Trajectory]:
    return trajectories_from_rows(list(enumerate(sample_rows(), start=1)))


@pytest.fixture(scope="session")
def sample_file(tmp_path_factory) -> Path:
    return write_rows(tmp_path_factory.mktemp("viewer") / "sample.jsonl", sample_rows())


@pytest.fixture(scope="session")
def exported(sample_file) -> str:
    """The address of the exported sample file."""
    out = sample_file.with_suffix(".html")
    export_html(CodeContents(load_trajectories(sample_file), "sample.jsonl"), out)
    return out.as_uri()


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
    flags = [
        "headless=new",
        "disable-gpu",
        "no-first-run",
        "disable-background-networking",
        "disable-component-update",
        "disable-sync",
        "disable-extensions",
        "in-process-gpu",  # one process less to start
        "force-prefers-reduced-motion",
        f"user-data-dir={profile}",
        "window-size=1200,700",
    ]
    if os.geteuid() == 0:
        flags.append("no-sandbox")  # Chromium refuses to start as root with its sandbox
    for flag in flags:
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(driver_binary))
    yield driver
    driver.quit()

"""How long `sweet-rl view` takes over many trajectories, and how much memory.

python benchmarks/view.py    # 100,000 trajectories, about 1 GB, in a temporary folder that is removed
python benchmarks/view.py --rows 2000 --no_browser
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from _measure import flags, heading, show

WORDS = [
    f"{a}{b}{c}" for a in "bdfglmnprst" for b in ("a", "e", "i", "o", "u", "ar", "en") for c in "bdklmnrstz"
]
INSTRUCTION = "You help somebody who knows what is wanted. Ask, one question at a time, then answer. " * 8


def sentence(draw: random.Random, words: int) -> str:
    return " ".join(draw.choices(WORDS, k=words))


def row(number: int, repeats: int) -> dict[str, object]:
    draw = random.Random(number // repeats)
    request = f"Task {number // repeats}: {sentence(draw, 30)}."
    draw = random.Random(number)
    solution = f"def f(x):\n    return {number}  # {sentence(draw, 20)}"
    history: list[dict[str, object]] = [{"role": "user", "content": request}]
    prompt = f"{INSTRUCTION}\nHuman: {request}\nAgent: "
    for _ in range(5):
        said, heard = f"{sentence(draw, 40)}?", f"{sentence(draw, 40)}."
        history += [
            {"role": "assistant", "content": said, "input": prompt, "output": said},
            {"role": "user", "content": heard},
        ]
        prompt += f"{said}\nHuman: {heard}\nAgent: "
    task = {"problem_description": request, "ground_truth": solution, "task_id": f"task-{number // repeats}"}
    more = {
        "answer": solution,
        "task_id": task["task_id"],
        "sample_index": number % repeats,
        "stop_reason": "answered",
    }
    return {"task": task, "dialogue_history": history[:-1], "reward": draw.choice([0.0, 0.5, 1.0])} | more


def get(address: str, path: str) -> tuple[float, bytes]:
    started = time.perf_counter()
    base, _, token = address.partition("?token=")
    while True:
        joint = "&" if "?" in path else "?"
        with urllib.request.urlopen(f"{base}{path}{joint}token={urllib.parse.quote(token)}") as answer:
            body = answer.read()
            if answer.status != 202:
                return time.perf_counter() - started, body
        time.sleep(0.05)


class Server:
    def __init__(self, path: Path) -> None:
        command = [sys.executable, "-m", "sweet_rl", "view", str(path), "--port", "0"]
        self.started = time.perf_counter()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.address = re.search(r"http://\S+", self.process.stdout.readline()).group()  # type: ignore[union-attr]

    def peak_mb(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status).group(1)) / 1024  # type: ignore[union-attr]

    def cpu_s(self) -> float:
        ticks = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait()


def first_page_s(address: str) -> float:
    """Until a real browser shows the list and the first dialogue."""
    import shutil

    from selenium import webdriver

    options = webdriver.ChromeOptions()
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu"):
        options.add_argument(flag)
    options.binary_location = shutil.which("chromium")
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        driver.get("about:blank")
        started = time.perf_counter()
        driver.get(address)
        while not driver.execute_script(
            "return document.querySelector('.entry') && document.querySelector('.turn')"
        ):
            time.sleep(0.01)
        return time.perf_counter() - started
    finally:
        driver.quit()


def main() -> None:
    given = flags(__doc__, rows=100_000, no_browser=False)
    print(heading())
    with tempfile.TemporaryDirectory(prefix="sweet_rl_view_") as folder:
        path = Path(folder, "rows.jsonl")
        with path.open("w") as file:
            file.writelines(f"{json.dumps(row(number, 4))}\n" for number in range(given.rows))
        print(f"{given.rows:,} trajectories, {path.stat().st_size / 1e9:.2f} GB")
        show(("what", "took"), measured(path, given.rows, browser=not given.no_browser))


def measured(path: Path, rows: int, *, browser: bool) -> Iterator[tuple[str, str]]:
    with Server(path) as server:
        seconds, body = get(server.address, "api/index/0")
        kept = sum(one.stat().st_size for one in path.parent.glob(".*.sqlite")) / 1e6
        yield (
            "index made, once",
            f"{seconds:.1f} s ({server.cpu_s():.1f} s of computing), {kept:.0f} MB beside the file",
        )
        yield "memory while it is made", f"{server.peak_mb():.0f} MB"
    with Server(path) as server:
        yield "started again: until the address is printed", f"{time.perf_counter() - server.started:.2f} s"
        files, _ = get(server.address, "api/files")
        index, body = get(server.address, "api/index/0")
        shown, _ = get(server.address, f"api/rows/0/{rows // 2}")
        yield f"list of all rows ({len(body) / 1e6:.1f} MB) and one row", f"{files + index + shown:.2f} s"
        if browser:
            yield "first page in Chromium", f"{first_page_s(server.address):.2f} s"
        draw = random.Random(rows // 2)
        sentence(draw, 20)
        asked = {
            "a rare phrase": sentence(draw, 4),
            "a task": f"Task {rows // 8}",
            "a frequent word": WORDS[5],
        }
        for name, text in asked.items():
            times = [get(server.address, f"api/search/0?text={urllib.parse.quote(text)}") for _ in range(5)]
            found = len(json.loads(times[0][1]))
            yield f"search: {name} ({found:,} rows)", f"{1000 * sorted(one for one, _ in times)[2]:.0f} ms"
        yield "memory of the server", f"{server.peak_mb():.0f} MB"


if __name__ == "__main__":
    main()

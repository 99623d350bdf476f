"""Trajectories of Frontend Design with their pictures: a dialogue that improves, a published row, a hostile one."""

from pathlib import Path

from sweet_rl.types import Json
from tests.browsers.fake_renderer import draw
from tests.viewer.samples import ATTACK

FIRST = "<html>\n<h1>Bakery</h1>\n</html>"
SECOND = "<html>\n<h1>Bakery</h1>\n<p>Open from six</p>\n</html>"
TARGET = "<html>\n<h1>Bakery</h1>\n<p>Open from six</p>\n<footer>Oven Street</footer>\n</html>"
HOSTILE = f"<html>\n<p>{ATTACK}</p>\n<script>window.pwned = 1</script></html>"
GRADES = {"combined": 0.82, "ssim": 0.8, "colour": 0.9, "text": 0.8, "layout": 0.78}
FLOORS = {"black picture": {"combined": 0.02}, "blank page": {"combined": 0.01}}


def page_task(task_id: str, html: str = TARGET) -> Json:
    return {
        "task_id": task_id,
        "problem_description": f"A page for {task_id}.",
        "ground_truth": html,
    }


def history(task: Json, *turns: str) -> list[Json]:
    """Agent and human in turns after the description; an agent's turn is thoughts, the marker, its words."""
    told: list[Json] = [{"role": "user", "content": task["problem_description"]}]
    for i, text in enumerate(turns):
        if i % 2:
            told.append({"role": "user", "content": text})
        else:
            output = f"I think.OUTPUT:{text}"
            told.append({"role": "assistant", "content": text, "input": f"prompt {i}", "output": output})
    return told


def page_rows(folder: Path) -> list[Json]:
    """Four rows; their pictures are written below `folder`."""
    pictures = folder / "run_images"
    pictures.mkdir(parents=True, exist_ok=True)
    for name, html in {"t": TARGET, "0": FIRST, "1": SECOND, "hostile": HOSTILE}.items():
        (pictures / f"{name}.png").write_bytes(draw(html).image)
    bakery, other, hostile = page_task("bakery"), page_task("published"), page_task(ATTACK, HOSTILE)
    said = (f"Here:\n{FIRST}\nLike this?", "The hours are missing.", f"I WANT TO ANSWER:\n{SECOND}")
    drafts = [{"turn": turn, "image": f"run_images/{turn}.png", "failure": None} for turn in (0, 1)]
    graded = {
        "answer": "run_images/1.png",
        "target_image": "run_images/t.png",
        "drafts": drafts,
        "stop_reason": "answered",
        "reward": 0.82,
        "grades": GRADES,
        "floors": FLOORS,
    }
    return [
        {"task": bakery, "dialogue_history": history(bakery, *said), "sample_index": 0, **graded},
        {
            "task": bakery,
            "dialogue_history": history(bakery, f"{FIRST}", "No response.", "Sorry."),
            "sample_index": 1,
            "answer": "run_images/0.png",
            "target_image": "run_images/t.png",
            "drafts": [drafts[0]],
            "stop_reason": "turn_limit",
            "reward": 0.4,
            "grades": GRADES | {"combined": 0.4},
            "floors": FLOORS,
        },
        {
            "task": other,
            "dialogue_history": history(other, FIRST, "More.", f"I WANT TO ANSWER: {SECOND}"),
            "answer": str(pictures / "1.png"),
        },
        {
            "task": hostile,
            "dialogue_history": history(hostile, f"{ATTACK}\n{HOSTILE}\n{ATTACK}"),
            "answer": "run_images/hostile.png",
            "drafts": [{"turn": 0, "image": "run_images/hostile.png", "failure": ATTACK}],
            "target_image": "run_images/missing.png",
            "sample_index": 0,
            "reward": 0.1,
            "grades": {ATTACK: 0.1},
            "floors": {ATTACK: {ATTACK: 0.2}},
            "grading_details": {"failures": [{"kind": ATTACK, "detail": ATTACK}]},
        },
    ]

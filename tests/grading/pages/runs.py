"""Trajectory rows with pictures, as the world frontend writes them."""

import json

from tests.browsers.fake_renderer import draw

TARGET = "<html><h1>Shop</h1><p>Fresh bread every day</p><p>Call us</p></html>"
NEAR = "<html><h1>Shop</h1><p>Fresh bread every day</p><p>Write</p><p>or ring</p></html>"
FAR = "<html><h1>Bank</h1></html>"


def row(task, page, *, target=TARGET, sample=0, answer="draw", folder=None, **more):
    """`answer`: "draw" writes the page's picture beside the file; anything else is the field as it is."""
    if answer == "draw":
        answer = f"{task}_{sample}.png"
        (folder / answer).write_bytes(draw(page).image)
    said = f"Here it is: {page}" if page else "I have no page."
    return {
        "task": {"task_id": task, "problem_description": f"a page, {task}", "ground_truth": target},
        "dialogue_history": [
            {"role": "user", "content": f"a page, {task}"},
            {"role": "assistant", "content": said, "input": f"IN {task} {sample}|", "output": said},
        ],
        "answer": answer,
        "sample_index": sample,
        "kept": [1, 2],
    } | more


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]

"""Rows as stages write them: of code with every outcome and published and hostile ones, of games, of pages with pictures."""

import json
from pathlib import Path

from sweet_rl.records import trajectories_from_rows
from sweet_rl.types import Json
from sweet_rl.viewer.rows import LAYOUTS, index_of
from tests.browsers.fake_renderer import draw

SHIPPING = {
    "task_id": "mini-test-0007",
    "problem_description": "I need a function that works out the shipping fee of an order for our web shop. It gets the order's "
    "weight and whether the customer is a member.\nThe signature is: def shipping_fee(weight_kg, is_member)",
    "ground_truth": '''def shipping_fee(weight_kg, is_member):
    """Fee in cents."""
    base = 450
    if weight_kg > 12:
        base += 35 * (weight_kg - 12)
    if is_member:
        base = base * 3 // 4
    return max(base, 199)
''',
    "test_cases": {
        f"test{i + 1}": f"shipping_fee({weight}, {i in (1, 4, 6, 8, 9)})"
        for i, weight in enumerate((1, 1, 12, 13, 13, 40, 40, 0, 0, 100))
    },
}
LOGS = {
    "task_id": "mini-test-0012",
    "problem_description": "Write a Python function that summarises a day's log lines for the people on call. They care about "
    "some levels more than about others.\nThe signature is: def summarise_levels(lines)",
    "ground_truth": "def summarise_levels(lines):\n    counts = {'ERROR': 0, 'WARN': 0}\n    for line in lines:\n"
    "        level = line.split(' ', 1)[0]\n        if level in counts:\n            counts[level] += 1\n"
    "    # more than two errors wake somebody up\n    counts['page'] = counts['ERROR'] > 2\n    return counts\n",
    "test_cases": {"test1": "summarise_levels([])", "test2": "summarise_levels(['ERROR a', 'WARN b'])"},
}
PUBLISHED = {
    "problem_description": "Write a Python function that returns the moving average of a list. "
    "The signature of the function is: def moving_average(values, window)",
    "ground_truth": "def moving_average(values, window):\n    return [sum(values[i:i + window]) / window\n"
    "            for i in range(len(values) - window + 1)]\n",
    "test_cases": {"test1": "moving_average([1, 2, 3, 4], 2)", "test2": "moving_average([], 3)"},
}
ATTACK = (
    "</script><script>window.pwned = 1</script><img src=x onerror='window.pwned = 1'><svg onload=window.pwned=1>"
    '<a href="javascript:window.pwned = 1">click</a><!-- <script> --> ]]> \u2028\u2029 &lt;b&gt; ${window.pwned = 1}'
)
HOSTILE = {
    "task_id": f"hostile/{ATTACK}#1",
    "problem_description": f"Say {ATTACK}",
    "ground_truth": f"def attack():\n    return {ATTACK!r}\n",
    "test_cases": {ATTACK: f"attack({ATTACK!r})"},
}
PROVENANCE = {"sweet_rl": "0.1.0", "agent_model": "llama-3.1-8b-instruct", "env_model": "scripted"}
PROVENANCE |= {"settings": {"max_steps": 10, "temperature": 1.0, "parser": "published"}, "seed": 1299709}
SYSTEM_PROMPT = (
    "<|system|>You help somebody to write a Python function. Ask about what you need to know, one question a turn. "
    "When you are sure, write I WANT TO ANSWER: followed by the code.<|end|>\n"
)

GOOD = "def shipping_fee(weight_kg, is_member):\n    fee = 450\n    if weight_kg > 12:\n        fee += 35 * (weight_kg - 12)\n    if is_member:\n        fee = fee * 3 // 4\n    return max(fee, 199)\n"
HALF = "def shipping_fee(weight_kg, is_member):\n    # a flat fee, dearer above the limit\n    base = 450\n    if weight_kg > 12:\n        base += 35\n    if is_member:\n        base = base * 3 // 4\n    return base\n"


def dialogue(task: Json, *turns: str | tuple[str, str]) -> list[Json]:
    """user, assistant, user, ... after the description; an agent turn may be (thought, visible)."""
    history: list[Json] = [{"role": "user", "content": task["problem_description"]}]
    prompt = f"{SYSTEM_PROMPT}<|user|>{task['problem_description']}<|end|>\n<|assistant|>"
    for i, turn in enumerate(turns):
        if i % 2:
            history.append({"role": "user", "content": turn})
            prompt += f"{turns[i - 1]}<|end|>\n<|user|>{turn}<|end|>\n<|assistant|>"
            continue
        thought, visible = turn if isinstance(turn, tuple) else ("", turn)
        output = f"{thought}OUTPUT:{visible}" if thought else visible
        history.append({"role": "assistant", "content": visible, "input": prompt, "output": output})
    return history


def graded(task: Json, passed: int, got: str, outcome="failed", detail="", published=None) -> Json:
    """What evaluation adds to a row: the first `passed` tests pass."""
    cases, results = list(task["test_cases"].items()), []
    for i, (name, expression) in enumerate(cases):
        value = str(450 + 35 * i)
        known = {"outcome": "passed", "got": value}
        if i >= passed:
            known = {"outcome": outcome, "got": got if outcome == "failed" else None, "detail": detail}
        results.append({"name": name, "expression": expression, "expected": value} | known)
    reward = passed / len(cases)
    grades = {"fixed": reward, "published": reward if published is None else published}
    return {"reward": reward, "grades": grades, "test_results": results}


def row(
    task: Json, repeat: int, history: list[Json], answer: str | None, stop: str | None, **more: Json
) -> Json:
    told = {"task": task, "dialogue_history": history, "answer": answer, "task_id": task["task_id"]}
    return told | {"sample_index": repeat, "stop_reason": stop, "provenance": PROVENANCE} | more


# fmt: off
def sample_rows() -> list[Json]:
    """Three tasks of ours with repeats, two published rows, one hostile row."""
    ask = "Above which weight does the fee go up, and by how much for each kilogram?"
    reply = "Above 12 kilograms it goes up by 35 cents for each extra kilogram. The base fee is 450 cents."
    thought = "The member discount is still open. One question should settle it, then I can answer. "
    loop = " def shipping_fee(weight_kg, is_member):\n    while True:\n        pass\n"
    levels = "Which levels matter?"
    limited = {"kind": "rate_limited", "detail": "the server asked to wait longer than --max_wait_s", "status": 429, "attempts": 4, "turn": 0}
    refused = {"kind": "bad_request", "detail": "the prompt has 8,214 tokens, the model takes 8,192", "status": 400, "attempts": 1, "turn": 1}
    discount = (
        ask, reply, (thought, "What do members get? Is there a minimum?"), "Members pay three quarters. It never goes below 199 cents.",
        f"Thank you, that is all I need.\nI WANT TO ANSWER:\n{GOOD}",
    )
    lines = (
        levels, "No response.", "What should the result look like?", "A dictionary with a count for each level.",
        "Should the pager go off at some point?",
    )

    def published(answer: str | None, *turns: str) -> Json:
        return {"task": PUBLISHED, "dialogue_history": dialogue(PUBLISHED, *turns), "answer": answer}

    return [
        row(SHIPPING, 0, dialogue(SHIPPING, *discount), f"\n{GOOD}", "answered", **graded(SHIPPING, 10, "")),
        row(LOGS, 0, dialogue(LOGS, *lines), "No answer", "turn_limit", failures=[limited],
            **graded(LOGS, 0, "", "error", "NameError: name 'summarise_levels' is not defined")),
        row(SHIPPING, 1, dialogue(SHIPPING, ask, reply, f"I WANT TO ANSWER:\n```python\n{HALF}```"), f"\n```python\n{HALF}```",
            "answered", **graded(SHIPPING, 6, "485", published=0.5)),
        row(LOGS, 1, dialogue(LOGS, levels), "No answer", "policy_failed", error=refused),
        row(SHIPPING, 2, dialogue(SHIPPING, f"I WANT TO ANSWER:{loop}"), loop, "answered",
            **graded(SHIPPING, 0, "", "timeout", "took longer than 1 s"), grading_details={"published_note": "would have hung", "lenient": 0.0}),
        row(LOGS, 2, dialogue(LOGS, "I WANT TO ANSWER:\n" + LOGS["ground_truth"]), "\n" + LOGS["ground_truth"], "answered",
            **graded(LOGS, 2, "")),
        published(None, "What should happen when the window is longer than the list?", "It returns an empty list."),
        published("\n" + PUBLISHED["ground_truth"], "Shall I handle None?", "No response.", "I WANT TO ANSWER:\n" + PUBLISHED["ground_truth"]),
        row(HOSTILE, 0, dialogue(HOSTILE, (ATTACK, ATTACK), ATTACK, f"I WANT TO ANSWER:\n{ATTACK}"), f"\n{ATTACK}", "world_failed",
            error={"kind": ATTACK, "detail": ATTACK}, failures=[{"kind": ATTACK, "detail": ATTACK, "turn": 0}],
            **graded(HOSTILE, 0, ATTACK, ATTACK, ATTACK)) | {"provenance": {"agent_model": ATTACK, "note": ATTACK}},
    ]
# fmt: on


def many_rows(count: int, repeats: int = 4) -> list[Json]:
    """`count` rows in published order, alike but for their number."""
    tasks, rows = count // repeats, []
    for i in range(count):
        asked = f"Task {i % tasks}. {SHIPPING['problem_description']}"
        task = SHIPPING | {"task_id": f"mini-{i % tasks:05d}", "problem_description": asked}
        history = dialogue(task, "Above which weight?", f"Above {i} kilograms.", f"I WANT TO ANSWER:\n{HALF}")
        rows.append(row(task, i // tasks, history, HALF, "answered", reward=i % 11 / 10))
    return rows


def listed(index: Json) -> list[Json]:
    """The rows of an index, one object each."""
    columns = index["columns"]
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def write_rows(path: Path, rows: list[Json]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in rows))
    return path


def read(*rows: Json) -> list:
    """Rows as trajectories."""
    return trajectories_from_rows(list(enumerate(rows, start=1)))


def index_by(kind: str, trajectories: list, title: str = "") -> Json:
    """The index of a file with these rows."""
    entries = map(LAYOUTS[kind].entry, trajectories)
    return index_of(((one["task"], one["repeat"] or 0, one) for one in entries), title, kind)


# ---- worlds that reward turns: solved, cut short, failed, and an errand that was run

RIVER = {"task_id": "twenty_questions/7", "problem_description": "Questions:\n"}
RIVER |= {"ground_truth": "river", "hidden_information": "river"}
ERRAND = "Find me a blue kettle, and price lower than 30.00 dollars"
KETTLE = {"task_id": "webshop/3", "problem_description": "Buy what the shop's first page asks for."}
KETTLE |= dict.fromkeys(("ground_truth", "hidden_information"), '{"asin": "B000000003"}')
KETTLE["instruction"] = ERRAND
ISLAND = {"task_id": "lantern/5", "ground_truth": "100 points"}
ISLAND["problem_description"] = "You are on an island. Light the great lantern again."
ISLAND |= {"ground_truth": "100 points"}


def played(task: Json, *turns: tuple[str, float | None, str]) -> list[Json]:
    """The world's first words, then the agent's turns, each as (what it did, reward, what the world said)."""
    history: list[Json] = [{"role": "user", "content": "Here we go."}]
    for said, reward, answer in turns:
        turn = {"role": "assistant", "content": said, "input": "Here we go.", "output": said}
        history.append(turn if reward is None else turn | {"reward": reward})
        history.append({"role": "user", "content": answer})
    return history


# fmt: off
def game_rows() -> list[Json]:
    """Three tasks; returns -1, -2, 0.67, none and 5 in file order; the last agent reflected."""
    island = played(ISLAND, ("north", 5.0, "A tower."))
    island[1]["reflection"] = "There may be a tower up north."
    right = ("Is it alive?", -1.0, "No."), ("Is it a river?", 0.0, "Yes.")
    wrong = ("Is it small?", -1.0, "No."), ("Is it wet?", -1.0, "Yes.")
    bought = ("search[kettle]", 0.0, "[B000000003]"), ("click[Buy Now]", 2 / 3, "Thank you.")
    down = {"kind": "timeout", "detail": "the shop did not answer"}
    return [
        row(RIVER, 0, played(RIVER, *right), "Is it a river?", "ended", reward=-1.0),
        row(RIVER, 1, played(RIVER, *wrong), None, "turn_limit", reward=-2.0),
        row(KETTLE, 0, played(KETTLE, *bought), "{'asin': 'B000000003'}", "ended", reward=2 / 3),
        row(KETTLE, 1, played(KETTLE, ("search[tea]", None, "The shop is closed.")), None, "world_failed", error=down),
        row(ISLAND, 0, island, None, "ended", reward=5.0),
    ]
# fmt: on


# ---- pages with their pictures: a dialogue that improves, a published row, a hostile one

FIRST = "<html>\n<h1>Bakery</h1>\n</html>"
SECOND = "<html>\n<h1>Bakery</h1>\n<p>Open from six</p>\n</html>"
TARGET = "<html>\n<h1>Bakery</h1>\n<p>Open from six</p>\n<footer>Oven Street</footer>\n</html>"
HOSTILE_PAGE = f"<html>\n<p>{ATTACK}</p>\n<script>window.pwned = 1</script></html>"
GRADES = {"combined": 0.82, "ssim": 0.8, "colour": 0.9, "text": 0.8, "layout": 0.78}
FLOORS = {"black picture": {"combined": 0.02}, "blank page": {"combined": 0.01}}


def page_task(task_id: str, html: str = TARGET) -> Json:
    return {"task_id": task_id, "problem_description": f"A page for {task_id}.", "ground_truth": html}


def history(task: Json, *turns: str) -> list[Json]:
    """Agent and human in turns after the description; an agent's turn is thoughts, the marker, its words."""
    told: list[Json] = [{"role": "user", "content": task["problem_description"]}]
    for i, text in enumerate(turns):
        own = {} if i % 2 else {"input": f"prompt {i}", "output": f"I think.OUTPUT:{text}"}
        told.append({"role": "user" if i % 2 else "assistant", "content": text, **own})
    return told


def page_rows(folder: Path) -> list[Json]:
    """Four rows; their pictures are written below `folder`."""
    pictures = folder / "run_images"
    pictures.mkdir(parents=True, exist_ok=True)
    for name, html in {"t": TARGET, "0": FIRST, "1": SECOND, "hostile": HOSTILE_PAGE}.items():
        (pictures / f"{name}.png").write_bytes(draw(html).image)
    bakery, other, hostile = page_task("bakery"), page_task("published"), page_task(ATTACK, HOSTILE_PAGE)
    said = (f"Here:\n{FIRST}\nLike this?", "The hours are missing.", f"I WANT TO ANSWER:\n{SECOND}")
    drafts = [{"turn": turn, "image": f"run_images/{turn}.png", "failure": None} for turn in (0, 1)]
    graded = {"answer": "run_images/1.png", "target_image": "run_images/t.png", "drafts": drafts}
    graded |= {"stop_reason": "answered", "reward": 0.82, "grades": GRADES, "floors": FLOORS}
    # fmt: off
    return [
        {"task": bakery, "dialogue_history": history(bakery, *said), "sample_index": 0, **graded},
        graded | {
            "task": bakery, "dialogue_history": history(bakery, f"{FIRST}", "No response.", "Sorry."), "sample_index": 1,
            "answer": "run_images/0.png", "drafts": [drafts[0]], "stop_reason": "turn_limit", "reward": 0.4,
            "grades": GRADES | {"combined": 0.4},
        },
        {
            "task": other, "dialogue_history": history(other, FIRST, "More.", f"I WANT TO ANSWER: {SECOND}"),
            "answer": str(pictures / "1.png"),
        },
        {
            "task": hostile, "dialogue_history": history(hostile, f"{ATTACK}\n{HOSTILE_PAGE}\n{ATTACK}"),
            "answer": "run_images/hostile.png", "target_image": "run_images/missing.png",
            "drafts": [{"turn": 0, "image": "run_images/hostile.png", "failure": ATTACK}],
            "sample_index": 0, "reward": 0.1, "grades": {ATTACK: 0.1}, "floors": {ATTACK: {ATTACK: 0.2}},
            "grading_details": {"failures": [{"kind": ATTACK, "detail": ATTACK}]},
        },
    ]
    # fmt: on

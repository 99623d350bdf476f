"""Trajectory rows as evaluation writes them: every outcome, every way to end, published rows, hostile text."""

import json
from pathlib import Path

from sweet_rl.types import Json

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
        f"test{i + 1}": f"shipping_fee({weight}, {member})"
        for i, (weight, member) in enumerate(
            [
                (1, False),
                (1, True),
                (12, False),
                (13, False),
                (13, True),
                (40, False),
                (40, True),
                (0, False),
                (0, True),
                (100, True),
            ]
        )
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
PROVENANCE = {
    "sweet_rl": "0.1.0",
    "agent_model": "llama-3.1-8b-instruct",
    "env_model": "scripted",
    "settings": {"max_steps": 10, "temperature": 1.0, "parser": "published"},
    "seed": 1299709,
}
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


def graded(
    task: Json,
    passed: int,
    got: str,
    outcome: str = "failed",
    detail: str = "",
    published: float | None = None,
) -> Json:
    """What evaluation adds to a row: the first `passed` tests pass."""
    cases = list(task["test_cases"].items())
    results = [
        {
            "name": name,
            "expression": expression,
            "outcome": "passed",
            "expected": str(450 + 35 * i),
            "got": str(450 + 35 * i),
        }
        if i < passed
        else {
            "name": name,
            "expression": expression,
            "outcome": outcome,
            "expected": str(450 + 35 * i),
            "got": got,
            "detail": detail,
        }
        for i, (name, expression) in enumerate(cases)
    ]
    for result in results:
        if result["outcome"] not in {"passed", "failed"}:
            result["got"] = None
    reward = passed / len(cases)
    return {
        "reward": reward,
        "grades": {"fixed": reward, "published": reward if published is None else published},
        "test_results": results,
    }


def row(
    task: Json, sample_index: int, history: list[Json], answer: str | None, stop_reason: str, **more: Json
) -> Json:
    return {
        "task": task,
        "dialogue_history": history,
        "answer": answer,
        "task_id": task["task_id"],
        "sample_index": sample_index,
        "stop_reason": stop_reason,
        "provenance": PROVENANCE,
    } | more


def sample_rows() -> list[Json]:
    """Three tasks of ours with repeats, two published rows, one hostile row."""
    ask = "Above which weight does the fee go up, and by how much for each kilogram?"
    reply = "Above 12 kilograms it goes up by 35 cents for each extra kilogram. The base fee is 450 cents."
    thought = "The member discount is still open. One question should settle it, then I can answer. "
    return [
        row(
            SHIPPING,
            0,
            dialogue(
                SHIPPING,
                ask,
                reply,
                (thought, "What do members get? Is there a minimum?"),
                "Members pay three quarters. It never goes below 199 cents.",
                f"Thank you, that is all I need.\nI WANT TO ANSWER:\n{GOOD}",
            ),
            f"\n{GOOD}",
            "answered",
            **graded(SHIPPING, 10, ""),
        ),
        row(
            LOGS,
            0,
            dialogue(
                LOGS,
                "Which levels matter?",
                "No response.",
                "What should the result look like?",
                "A dictionary with a count for each level.",
                "Should the pager go off at some point?",
            ),
            "No answer",
            "turn_limit",
            failures=[
                {
                    "kind": "rate_limited",
                    "detail": "the server asked to wait longer than --max_wait_s",
                    "status": 429,
                    "attempts": 4,
                    "turn": 0,
                }
            ],
            **graded(LOGS, 0, "", "error", "NameError: name 'summarise_levels' is not defined"),
        ),
        row(
            SHIPPING,
            1,
            dialogue(SHIPPING, ask, reply, f"I WANT TO ANSWER:\n```python\n{HALF}```"),
            f"\n```python\n{HALF}```",
            "answered",
            **graded(SHIPPING, 6, "485", published=0.5),
        ),
        row(
            LOGS,
            1,
            dialogue(LOGS, "Which levels matter?"),
            "No answer",
            "policy_failed",
            error={
                "kind": "bad_request",
                "detail": "the prompt has 8,214 tokens, the model takes 8,192",
                "status": 400,
                "attempts": 1,
                "turn": 1,
            },
        ),
        row(
            SHIPPING,
            2,
            dialogue(
                SHIPPING,
                "I WANT TO ANSWER: def shipping_fee(weight_kg, is_member):\n    while True:\n        pass\n",
            ),
            " def shipping_fee(weight_kg, is_member):\n    while True:\n        pass\n",
            "answered",
            **graded(SHIPPING, 0, "", "timeout", "took longer than 1 s"),
            grading_details={"published_note": "would have hung", "lenient": 0.0},
        ),
        row(
            LOGS,
            2,
            dialogue(LOGS, "I WANT TO ANSWER:\n" + LOGS["ground_truth"]),
            "\n" + LOGS["ground_truth"],
            "answered",
            **graded(LOGS, 2, ""),
        ),
        {
            "task": PUBLISHED,
            "dialogue_history": dialogue(
                PUBLISHED,
                "What should happen when the window is longer than the list?",
                "It returns an empty list.",
            ),
            "answer": None,
        },
        {
            "task": PUBLISHED,
            "dialogue_history": dialogue(
                PUBLISHED,
                "Shall I handle None?",
                "No response.",
                "I WANT TO ANSWER:\n" + PUBLISHED["ground_truth"],
            ),
            "answer": "\n" + PUBLISHED["ground_truth"],
        },
        row(
            HOSTILE,
            0,
            dialogue(HOSTILE, (ATTACK, ATTACK), ATTACK, f"I WANT TO ANSWER:\n{ATTACK}"),
            f"\n{ATTACK}",
            "world_failed",
            error={"kind": ATTACK, "detail": ATTACK},
            failures=[{"kind": ATTACK, "detail": ATTACK, "turn": 0}],
            **graded(HOSTILE, 0, ATTACK, ATTACK, ATTACK),
        )
        | {"provenance": {"agent_model": ATTACK, "note": ATTACK}},
    ]


def many_rows(count: int, repeats: int = 4) -> list[Json]:
    """`count` rows in published order, alike but for their number."""
    tasks = count // repeats
    rows = []
    for i in range(count):
        task = SHIPPING | {
            "task_id": f"mini-{i % tasks:05d}",
            "problem_description": f"Task {i % tasks}. {SHIPPING['problem_description']}",
        }
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

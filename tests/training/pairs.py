"""Preference pairs of different lengths, in the chat format of the tests' tiny tokenizer."""

import json
import random

WORDS = "list of numbers total prices discount empty zero sum return what should it give".split()


def turn(role, text):
    return f"<|header|>{role}<|end_header|>\n\n{text}<|end_turn|>"


def dialogue_pairs(count, *, seed=0):
    """Whole dialogues: one assistant turn or two, in texts of 1 to 12 words."""
    draw = random.Random(seed)

    def words():
        return " ".join(draw.choices(WORDS, k=draw.randint(1, 12)))

    rows = []
    for _ in range(count):
        opening = "<|begin|>" + turn("user", words())
        if draw.random() < 0.5:
            opening += turn("assistant", words()) + turn("user", words())
        rows.append({side: opening + turn("assistant", words()) for side in ("chosen", "rejected")})
    return rows


def write_pairs(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_dialogues(path, rows):
    """Trajectories in the published layout, from the task's text, the agent's turns and the reward."""
    trajectories = []
    for row in rows:
        text = "<|begin|>" + turn("user", row["task"])
        history = [{"role": "user", "content": row["task"]}]
        for answer in row["answers"]:
            text += "<|header|>assistant<|end_header|>\n\n"
            history.append({"role": "assistant", "content": answer, "input": text, "output": answer})
            text += answer + "<|end_turn|>" + turn("user", "Yes.")
            history.append({"role": "user", "content": "Yes."})
        task = {"problem_description": row["task"], "ground_truth": "def f(): return 1"}
        trajectories.append(
            {"task": task, "dialogue_history": history[:-1], "answer": answer, "reward": row["reward"]}
        )
    return write_pairs(path, trajectories)

"""Files of trajectories whose numbers are known."""

import json


def row(task, reward, *, turns=1, sample=0, agent="a", human="scripted", family="", says="x", **more):
    """One graded episode of the world of functions."""
    entries = [{"role": "user", "content": f"Write {task}."}]
    for turn in range(turns):
        entries.append({"role": "assistant", "content": f"{says} {turn}", "input": "", "output": says})
        if turn < turns - 1:
            entries.append({"role": "user", "content": "Yes."})
    settings = {"task_type": "code", "max_steps": 10, "seed": 0, "agent_model": agent, "env_model": human}
    body = {"task_id": task, "problem_description": f"Write {task}.", "ground_truth": "def f(): pass"}
    return {
        "task": body | ({"family": family} if family else {}),
        "dialogue_history": entries,
        "answer": says,
        "reward": reward,
        "task_id": task,
        "sample_index": sample,
        "stop_reason": "answered",
        "provenance": {"sweet_rl": "1", "agent_model": agent, "env_model": human, "settings": settings},
        "graded_with": {"grader": "tests", "digest": "d"},
    } | more


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)

"""The whole pipeline on the embedded defaults, every stage by the command a person would type."""

from __future__ import annotations

from sweet_rl.errors import UsageError

AGENTS = ("oracle", "questioner", "constant")


def demo(output_dir: str = "outputs/demo", *, num_tasks: int = 40, best_of_n: int = 2, seed: int = 0) -> None:
    """Run the whole pipeline on the embedded defaults: tasks, dialogues, grades, report.

    Needs no GPU, no download and no key, and takes a minute or two. It generates tasks of the mini benchmark,
    starts the simulator server (the scripted human behind the OpenAI protocol), lets three scripted agents
    talk to it over HTTP, grades their answers in the sandbox and writes a page to look at.

    Args:
        output_dir: folder for everything that is made; what an earlier demo left there is replaced.
        num_tasks: tasks of mini:test.
        best_of_n: dialogues for each task.
        seed: decides about tasks and dialogues.
    """
    import json
    import time
    from pathlib import Path

    from sweet_rl.users.server_process import start_server

    if num_tasks < 1 or best_of_n < 1:
        raise UsageError("--num_tasks and --best_of_n must be at least 1.")
    started = time.perf_counter()
    folder = Path(output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    tasks = folder / "tasks.jsonl"
    _stage("generate_tasks", tasks, source="mini:test", num_tasks=num_tasks, seed=seed, overwrite=True)
    with start_server(latency_median_ms=20) as server:
        print(f"\nThe simulated human answers at {server.base_url}\n")
        for agent in AGENTS:
            _stage(
                "simulate_interactions",
                tasks,
                folder / f"{agent}.jsonl",
                agent_model=agent,
                env_model="scripted",
                env_base_url=server.base_url,
                best_of_n=best_of_n,
                batch_size=64,
                seed=seed,
                overwrite=True,
            )
    for agent in AGENTS:
        _stage("evaluate_code", folder / f"{agent}.jsonl", k=best_of_n, quiet=True)
    page = folder / "questioner.html"
    _stage("visualize_dialogue_histories", folder / "questioner.jsonl", export=page)
    print(f"\n{'agent':<12}{'tests passed %':>16}{'success %':>12}")
    for agent in AGENTS:
        report = json.loads((folder / f"{agent}.report.json").read_text())
        column = report["columns"]["fixed"]
        numbers = [100 * column[name]["mean"] for name in ("tests_passed", "success")]
        print(f"{agent:<12}{numbers[0]:>16.1f}{numbers[1]:>12.1f}")
    print(
        f"\nDone in {time.perf_counter() - started:.0f} s. Open {page} in a browser to read the dialogues,\n"
        f"or run: sweet-rl visualize_dialogue_histories {folder / 'oracle.jsonl'}"
    )


def _stage(name: str, *positional: object, **flags: object) -> None:
    """Run a stage as a process of its own, and show the command that does the same by hand."""
    import shlex
    import subprocess
    import sys

    arguments = [str(value) for value in positional]
    for flag, value in flags.items():
        arguments += [f"--{flag}"] if value is True else [f"--{flag}", str(value)]
    print("$ sweet-rl " + shlex.join([name, *arguments]), flush=True)
    done = subprocess.run([sys.executable, "-m", "sweet_rl", name, *arguments], check=False)  # noqa: S603
    if done.returncode:
        raise UsageError(f"the stage {name} ended with status {done.returncode}; its message is above.")

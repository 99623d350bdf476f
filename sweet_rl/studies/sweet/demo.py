"""The whole story on the embedded defaults, every stage by the command a person would type."""

from __future__ import annotations

from sweet_rl import tracking
from sweet_rl.command_line.recording import recorded
from sweet_rl.errors import UsageError


@recorded("demo", reads=("agent",))
def demo(
    output_dir: str = "outputs/demo",
    *,
    agent: str = "embedded",
    world: str = "usual",
    seed: int = 0,
    train_tasks: int = 600,
    test_tasks: int = 300,
    page_tasks: int = 4,
    dev: bool = False,
    jobs: int = 2,
    overwrite: bool = False,
) -> None:
    """Run SWEET-RL and its rivals from nothing: dialogues, critic, candidates, pairs, policies, report.

    Needs no GPU, no download and no key; takes under ten minutes on two cores. The embedded agent talks to
    the scripted human over HTTP, its dialogues are graded in the sandbox, and every method learns from the
    same ones: rejection fine-tuning, DPO on whole dialogues, and SWEET-RL in four forms. Where a browser is
    installed, designers without a model draw a few web pages (Frontend Design). Each command is printed as a
    person would type it. It ends with a table and a page to look at. An interrupted demo goes on where it
    was.

    Args:
        output_dir: folder for everything that is made.
        agent: the agent to begin with: embedded, or a folder of make_embedded_agent.py.
        world: world of the mini benchmark: usual or easy.
        seed: decides about tasks, dialogues and trainings.
        train_tasks: tasks that the agent talks about, four times each, to learn from.
        test_tasks: tasks that every method is measured on.
        page_tasks: web pages that the designers draw; 0 leaves this part out.
        dev: measure on mini:dev instead of mini:test, to choose settings.
        jobs: stages at once, each with one thread.
        overwrite: throw away what an earlier demo left in the folder.
    """
    import shutil
    import time
    from dataclasses import replace
    from pathlib import Path

    from sweet_rl.studies.outcome import check_packages, finish
    from sweet_rl.studies.runner import run_rounds, seconds_of
    from sweet_rl.studies.sweet.pages import why_no_pages
    from sweet_rl.studies.sweet.recipe import Study, rounds
    from sweet_rl.studies.sweet.results import results
    from sweet_rl.users.server_process import start_server

    if world not in {"usual", "easy"}:
        raise UsageError(f"--world must be usual or easy, got {world!r}.")
    if train_tasks < 1 or test_tasks < 1 or jobs < 1:
        raise UsageError("--train_tasks, --test_tasks and --jobs must be at least 1.")
    if page_tasks < 0:
        raise UsageError(f"--page_tasks must not be negative, got {page_tasks}.")
    check_packages()
    started = time.perf_counter()
    folder = Path(output_dir)
    if overwrite and folder.exists():
        shutil.rmtree(folder)
    tracking.writes(folder, folder=True, continues=True)
    with start_server() as server:
        print(f"The scripted human answers at {server.base_url}\n", flush=True)
        study = Study(
            folder,
            agent=agent,
            human=server.base_url,
            seed=seed,
            world=world,
            train_tasks=train_tasks,
            test_split="dev" if dev else "test",
            test_tasks=test_tasks,
            page_tasks=page_tasks,
        )
        if page_tasks and (lacking := why_no_pages(study)):
            print(f"The part with web pages is left out. {lacking}\n", flush=True)
            study = replace(study, page_tasks=0)
        run_rounds(rounds(study), folder, jobs=jobs)
    finish(folder, results(study, seconds_of(folder)))
    if study.page_tasks:
        print(
            "Look at the pages with: sweet-rl visualize_design_dialogue_histories "
            f"{folder / 'pages.improver.jsonl'} --metrics --render_cache {folder / 'pages.rendered'}"
        )
    print(
        f"Done in {time.perf_counter() - started:.0f} s. Open {folder / 'report.html'} in a browser, or\n"
        f"read dialogues with: sweet-rl visualize_dialogue_histories {folder / 'sweet.test.jsonl'}"
    )

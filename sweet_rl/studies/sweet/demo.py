"""The whole SWEET-RL pipeline on the embedded defaults, every stage by its command."""

from __future__ import annotations

from dataclasses import dataclass

from sweet_rl.command_line.recording import recorded
from sweet_rl.command_line.stages import stage
from sweet_rl.flags import flag
from sweet_rl.flags.common import Seeded, WorldName
from sweet_rl.flags.models import Agent
from sweet_rl.studies.flags import HELPS, StudyFlags


@dataclass(frozen=True, kw_only=True)
class DemoFlags(StudyFlags, Agent, WorldName, Seeded):
    """The study."""

    num_train_tasks: int = flag(
        600,
        "tasks that the agent talks about, four times each, to learn from.",
        at_least=1,
        aliases=("train_tasks",),
    )
    num_test_tasks: int = flag(
        300, "tasks that every method is measured on.", at_least=1, aliases=("test_tasks",)
    )
    page_tasks: int = flag(4, "web pages that the designers draw; 0 leaves this part out.", at_least=0)
    dev: bool = flag(False, "measure on mini:dev instead of mini:test, to choose settings.")


@recorded("demo", reads=("agent",))
@stage(
    "output_dir",
    defaults={"output_dir": "outputs/demo", "agent": "embedded", "world": "usual"},
    helps=HELPS
    | {
        "agent": "the agent to begin with: embedded, or a folder of make_embedded_agent.py.",
        "world": "world of the mini benchmark: usual or easy.",
        "seed": "decides about tasks, dialogues and trainings.",
    },
    narrow={
        "agent": {"choices": ()},
        "world": {"choices": ("usual", "easy"), "aliases": ()},
    },
)
def demo(flags: DemoFlags, /) -> None:
    """Run SWEET-RL and its rivals from nothing: dialogues, critic, candidates, pairs, policies, report.

    Needs no GPU, no download and no key; takes under ten minutes on two cores. The embedded agent talks to
    the scripted human over HTTP, its dialogues are graded in the sandbox, and every method learns from the
    same ones: rejection fine-tuning, DPO on whole dialogues, and SWEET-RL in four forms. Where a browser is
    installed, designers without a model draw a few web pages (Frontend Design). Each command is printed as a
    person would type it. It ends with a table and a page to look at. An interrupted demo resumes where it
    stopped.
    """
    from dataclasses import replace
    from functools import partial

    from sweet_rl.pipelines.steps import in_rounds
    from sweet_rl.studies.outcome import prepared, run_study
    from sweet_rl.studies.sweet.pages import why_no_pages
    from sweet_rl.studies.sweet.recipe import Study, rounds
    from sweet_rl.studies.sweet.results import results
    from sweet_rl.users.server_process import start_server

    folder = prepared(flags)
    with start_server() as server:
        print(f"The scripted human answers at {server.base_url}\n", flush=True)
        study = Study(
            folder,
            agent=flags.agent,
            human=server.base_url,
            seed=flags.seed,
            world=flags.world,
            train_tasks=flags.num_train_tasks,
            test_split="dev" if flags.dev else "test",
            test_tasks=flags.num_test_tasks,
            page_tasks=flags.page_tasks,
        )
        if flags.page_tasks and (lacking := why_no_pages(study)):
            print(f"The part with web pages is left out. {lacking}\n", flush=True)
            study = replace(study, page_tasks=0)
        run_study(flags, in_rounds(rounds(study)), partial(results, study))
    if study.page_tasks:
        print(
            "Look at the pages with: sweet-rl visualize_design_dialogue_histories "
            f"{folder / 'pages.improver.jsonl'} --metrics --render_cache {folder / 'pages.rendered'}"
        )
    print(f"Read dialogues with: sweet-rl visualize_dialogue_histories {folder / 'sweet.test.jsonl'}")

"""What a turn was worth, and what methods believe it was worth."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from sweet_rl import tracking
from sweet_rl.cli.parse import Facets
from sweet_rl.cli.progress import Bar, judge_failed
from sweet_rl.cli.stage import built, given_flags, recorded, stage
from sweet_rl.commands.simulate_interactions import simulate_interactions
from sweet_rl.errors import UsageError
from sweet_rl.flags import REQUIRED, flag, flags_of, group, shared
from sweet_rl.players import ANSWERED, OWN, HumanFlags, PlayerFlags
from sweet_rl.players.cast import Cast
from sweet_rl.preferences.candidates import Candidates, candidates_from_rows, write_turns
from sweet_rl.preferences.credit import own_turns, turn_digest
from sweet_rl.preferences.pairs import key_of, twice
from sweet_rl.records import Journal, read_rows, replace_file, trajectories_from_rows
from sweet_rl.runs import check_settings, new_file
from sweet_rl.runs.facts import identity_of, maker_of, now
from sweet_rl.types import Json, Trajectory
from sweet_rl.worlds import Options, World, options_of, world_of


@group("Measuring")
class MeasuringFlags(
    shared.SavedPath,
    shared.OutputPath,
    shared.WorldName,
    shared.BatchSize,
    shared.GraderName,
    shared.Seeded,
    shared.Resumable,
):
    trajectories: str | None = flag(
        None, "of candidates: the file they were sampled for; default: as recorded."
    )
    measure: Literal["reward", "success"] = flag(
        "reward", "what is measured: mean reward, or share of successes."
    )
    target_error: float = flag(0.1, "wanted half-width of each 95 % interval, in its units.", above=0)
    continuations: int | None = flag(
        None, "of every state, instead of what --target_error needs.", at_least=2
    )
    max_continuations: int = flag(256, "most continuations of a state with --target_error.", at_least=8)


def _settled(flags: Mapping[str, Any]) -> dict[str, Any]:
    """The flags; what they leave open is as the episodes were played."""
    source, given = str(flags["trajectories"] or flags["saved_path"]), given_flags.get()
    first: Mapping[str, Json] = next((row for _, row in read_rows(source)), {})
    record = maker_of(Path(source)) or {}
    played = dict(record.get("settings") or {})
    if "additional_outputs" in first:
        source = str(played.get("input_path"))
        if not Path(source).is_file():
            problem = f"{flags['saved_path']!r} holds candidates, and no record of their episodes."
            raise UsageError(
                f"{problem} Name the trajectory file that they were sampled for with --trajectories."
            )
        return _settled({**flags, "trajectories": source})
    played = played if record.get("stage") in {"simulate_interactions", "eval"} else {}
    played |= (first.get("provenance") or {}).get("settings") or {}
    played |= {"max_turns": played.get("max_steps"), "temp_path": None}
    world = flags["world"] or played.get("world") or played.get("task_type")
    if world is None:
        raise UsageError(f"{source!r} does not say of which world its episodes are: name it with --world.")
    agents = {identity_of(one) for one in (played.get("agent_model"), flags["agent_model"]) if one}
    kinds = (HumanFlags, PlayerFlags) if len(agents) == 1 else (HumanFlags,)
    known = {one.name: one for kind in kinds for one in flags_of(kind)}
    open_ = {name for name, one in known.items() if name not in given and flags.get(name) == one.default}
    then = {name: played[name] for name in open_ - {"agent", "agent_model"} if name in played}
    options = options_of(world_of(world), played)
    return {**flags, **then, "trajectories": source, "world": world, "options": options}


def _facets(flags: Mapping[str, Any]) -> Facets:
    settled = _settled(flags)
    facets: Facets = simulate_interactions.facets({"agent": "auto", **settled})  # type: ignore[attr-defined]
    return facets


@recorded(
    "credit measure",
    reads="saved_path trajectories agent_model tokenizer agent_prompt_path env_model user_prompt_path".split(),
    prices=True,
)
@stage(
    "saved_path",
    "agent_model",
    without=("agent",),
    defaults={"agent_model": REQUIRED, "batch_size": 512, "output_path": "", "world": ""},
    helps={
        "saved_path": "graded trajectories of sweet-rl simulate_interactions, or candidates of sweet-rl sample_best_of_n.",
        "agent_model": "policy that plays on: a folder, a hub name, smollm2, embedded, one of the world's scripted "
        "agents, or with --agent_base_url its name on the server.",
        "batch_size": "continuations in flight at once.",
        "output_path": "file for the measured turns; default: --saved_path with .measured.jsonl in place of .jsonl.",
        "world": "world of the episodes, where no record names it.",
    },
    narrow={"agent_model": {"aliases": ("agent",)}},
    only=ANSWERED,
    facets=_facets,
)
def measure(flags: MeasuringFlags, agent: PlayerFlags, human: HumanFlags, /) -> None:
    """Measure what each turn was worth, by playing on from before and after it.

    The value of a state is the mean reward of the episodes that the policy plays on from it. A turn's advantage is
    the value after it minus that before it, with a 95 % interval. Continuations go where intervals are widest. World,
    human and their settings are those of the episodes; a human played by a model says again what it said. In a file
    of candidates the state after each candidate is measured.

    The smallest run: sweet-rl credit measure trajectories.jsonl --agent embedded
    """
    from sweet_rl.credit.measured import Plan, Recorder

    tracking.logs_to(flags.destination())
    settled = _settled({**vars(flags), **vars(agent), **vars(human)})
    world, options, source = world_of(settled["world"]), settled["options"], str(settled["trajectories"])
    players: dict[str, Any] = {"agent": built(PlayerFlags, settled), "human": built(HumanFlags, settled)}
    cast = Cast(world=world, options=options, seed=flags.seed, **players)
    cast.check()
    if cast.engine not in {OWN, "scripted"} and cast.agent.temperature == 0:
        raise UsageError(
            "--temperature 0: a greedy policy plays every continuation alike. Name the temperature it is sampled with."
        )
    recorded = _recorded(source, world, options, flags.grader)
    settings: dict[str, Json] = {"policy": identity_of(cast.agent.agent_model), "world": world.name}
    how = ("measure", "target_error", "continuations", "max_continuations", "seed")
    own = world.settings(options) | cast.human_settings() | cast.agent_settings()
    settings |= {name: own[name] for name in own if name != "agent_model"} | {
        name: getattr(flags, name) for name in how
    }
    bounds = (0.0, 1.0) if flags.measure == "success" else world.scores.range(world.turns(options))
    plan = Plan(flags.target_error, flags.continuations, flags.max_continuations, bounds)
    rows = list(read_rows(flags.saved_path))
    jobs: list[tuple[Trajectory, list[Candidates]]] = [(one, own_turns(one)) for one in recorded]
    if rows and "additional_outputs" in rows[0][1]:
        by_key = {one.key: one for one in recorded}
        sampled = candidates_from_rows(rows, path=flags.saved_path)
        jobs = [(by_key[row.key[:2]], [row]) for row in sampled if row.key[:2] in by_key and row.candidates]
    turns = [turn for _, some in jobs for turn in some]
    if not turns:
        raise UsageError(f"{flags.saved_path!r} has no turns of episodes that are over and graded.")
    digests = {turn.key: turn_digest(turn.prompt, *(one.text for one in turn.candidates)) for turn in turns}
    recorder = Recorder(cast, recorded, plan, settings, flags.grader, options.at_once(flags.batch_size))

    async def work(todo: list[Candidates], journal: Journal, bar: Bar, _: None) -> None:
        wanted = {turn.key for turn in todo}

        def keep(found: list[dict[str, Json]]) -> None:
            journal.append(new := [row for row in found if key_of(row) in wanted])
            bar.set_postfix_str(f"{recorder.stats.episodes:,} continuations", refresh=False)
            bar.update(len(new))

        left = [job for job in jobs if any(turn.key in wanted for turn in job[1])]
        await recorder.run(left, keep, bar.write)

    saved = Path(flags.saved_path)
    output = Path(flags.output_path or saved.with_name(f"{saved.stem}.measured.jsonl"))
    more: dict[str, Any] = {"noun": "turns", "digests": digests}
    write_turns(output, flags, turns, settings, work, field="settings", quiet=flags.quiet, **more)
    failed, played = recorder.failed, recorder.stats.episodes
    print(f"{len(turns)} turns are in {output}. {played:,} continuations were played.")
    kept = f"Means in {output} are over the others."
    judge_failed(len(failed), played, failed[:1], noun="continuations", kept=kept, flag="")


def _recorded(source: str, world: World, options: Options, grader: str) -> list[Trajectory]:
    """The episodes of a file that are over and graded; all have to be played by the same rules."""
    numbered = list(read_rows(source))
    found, lines, repair = list[Trajectory](), dict[tuple[str, int], int](), "Measure each run by itself."
    wanted = json.loads(json.dumps(world.settings(options), default=str))
    for (line, _), one in zip(numbered, trajectories_from_rows(numbered, path=source), strict=True):
        where = f"{source!r}, line {line}"
        if (first := lines.setdefault(one.key, line)) != line:
            raise twice(source, line, "task_id, sample_index", one.key, first)
        if one.failed or one.cannot_be_graded:
            continue
        played = one.provenance.get("settings") or {}
        check_settings({name: played.get(name, wanted[name]) for name in wanted}, wanted, where, repair)
        if one.reward is None:
            stage = f"sweet-rl {world.scores.stage} {source}"
            raise UsageError(f"{where}: the episode has no reward. Grade the file first: {stage}.")
        by = str((one.extra.get("graded_with") or {}).get("grader", "tests"))
        if by not in {"tests", "pages", grader}:
            raise UsageError(f"{where}: the reward is by the grader {by!r}: pass --grader {by}.")
        found.append(one)
    if not found:
        raise UsageError(f"{source!r} has no episodes that are over and graded.")
    return found


@group("Comparing")
class ComparingFlags(shared.HtmlPath, shared.Overwriting):
    pass


@recorded("credit compare")
@stage(
    helps={
        "overwrite": "replace the page and its JSON file if they exist.",
        "html": "also write a page, such as credit.html, and its numbers as JSON beside it (.json).",
    }
)
def compare(flags: ComparingFlags, /, *paths: str) -> None:
    """Hold the scores of methods against what turns were worth.

    For each method: the rank correlation of its scores with measured worth, the AUC over turns that are clearly good or
    bad, and its cost. Over candidates also the value that is lost when the candidate with the highest score is taken,
    and how often that one repeats an earlier turn. Rows are joined by turn; scores of other texts are refused.

    The smallest comparison: sweet-rl credit compare run.measured.jsonl run.credit.critic.jsonl --html credit.html

    Args:
        flags: where to.
        paths: the file of sweet-rl credit measure, then files of scores of the same trajectories or candidates.
    """
    if len(paths) < 2:
        raise UsageError(
            "Name a measured file and a file of scores: sweet-rl credit compare run.measured.jsonl SCORES"
        )
    from sweet_rl.credit.compare import compared, page_of, text_of

    page = Path(flags.html or "credit.html")
    if page.suffix != ".html":
        raise UsageError(
            f"--html {flags.html!r} must end in .html; the numbers are written beside it as .json."
        )
    for place in (page, page.with_suffix(".json")) if flags.html else ():
        new_file(place, "html", overwrite=flags.overwrite)
    for path in paths:
        tracking.reads("paths", path)
    numbers = compared(paths[0], paths[1:])
    print(text_of(numbers))
    if flags.html:
        made = {"made": now()[:10], "command": tracking.current().command or ""}
        told = json.dumps(made | numbers, indent=1)
        for place, text in ((page, page_of(numbers, **made)), (page.with_suffix(".json"), f"{told}\n")):
            tracking.writes(place)
            replace_file(place, [text.encode("utf-8", "replace")])
        print(f"\nThe page is {page}, its numbers are in {page.with_suffix('.json')}.")

"""What a turn was worth, and what methods believe it was worth."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from sweet_rl import tracking
from sweet_rl.cli.parse import Facets
from sweet_rl.cli.progress import Bar, judge_failed
from sweet_rl.cli.servers import key_in
from sweet_rl.cli.stage import built, given_flags, recorded, stage
from sweet_rl.commands.rank_best_of_n import ScorerFlags, facets
from sweet_rl.commands.simulate_interactions import simulate_interactions
from sweet_rl.errors import DataError, UsageError, no_such
from sweet_rl.flags import REQUIRED, Settings, flag, flags_of, group, listed, shared
from sweet_rl.flags.models import SERVED, Advantage, Critic, Tokenizer, WithoutHidden
from sweet_rl.flags.shared import Continuing, Quiet, SavedPath, SaveSteps
from sweet_rl.players import ANSWERED, OWN, HumanFlags, PlayerFlags
from sweet_rl.players.cast import Cast
from sweet_rl.preferences.candidates import Candidates, candidates_from_rows, write_turns
from sweet_rl.preferences.credit import digest_of, own_turns
from sweet_rl.preferences.pairs import each_once, key_of
from sweet_rl.records import Journal, read_rows, replace_file, trajectories_from_rows
from sweet_rl.runs import check_settings, new_file
from sweet_rl.runs.facts import identity_of, maker_of, now, trained_from
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
    trajectories: str | None = flag(None, "of candidates: file they were sampled for; default: as recorded.")
    measure: Literal["reward", "success"] = flag("reward", "what is measured: mean reward, or success rate.")
    target_error: float = flag(0.1, "wanted half-width of each 95 % interval, in its units.", above=0)
    continuations: int | None = flag(None, "of every state, whatever --target_error needs.", at_least=2)
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
            raise UsageError(f"{problem} Name the file that they were sampled for with --trajectories.")
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
        raise UsageError("--temperature 0 plays every continuation alike. Name the one it is sampled with.")
    recorded = _recorded(source, world, options, flags.grader)
    settings: dict[str, Json] = {"policy": identity_of(cast.agent.agent_model), "world": world.name}
    how = ("measure", "target_error", "continuations", "max_continuations", "seed")
    own = world.settings(options) | cast.human_settings() | cast.agent_settings()
    settings |= {name: own[name] for name in own if name != "agent_model"}
    settings |= {name: getattr(flags, name) for name in how}
    bounds = (0.0, 1.0) if flags.measure == "success" else world.scores.range(world.turns(options))
    rewards = [one.reward for one in recorded if one.reward is not None]
    known = (*bounds, min(rewards), max(rewards))
    if None in bounds and known[2] == known[3]:
        print(f"{world.name} names no bounds of rewards, and all of {source!r} are {known[2]:g}: where all continuations of a state give the same, its interval has no width (scores = Scores(lowest=..., highest=...) would give it one).")  # fmt: skip
    plan = Plan(flags.target_error, flags.continuations, flags.max_continuations, known)
    rows = list(read_rows(flags.saved_path))
    jobs: list[tuple[Trajectory, list[Candidates]]] = [(one, own_turns(one)) for one in recorded]
    if rows and "additional_outputs" in rows[0][1]:
        by_key = {one.key: one for one in recorded}
        sampled = candidates_from_rows(rows, path=flags.saved_path)
        jobs = [(by_key[row.key[:2]], [row]) for row in sampled if row.key[:2] in by_key and row.candidates]
    turns = [turn for _, some in jobs for turn in some]
    if not turns:
        raise UsageError(f"{flags.saved_path!r} has no turns of episodes that are over and graded.")
    digests = {turn.key: digest_of(turn) for turn in turns}
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
    found, repair = list[Trajectory](), "Measure each run by itself."
    wanted = json.loads(json.dumps(world.settings(options), default=str))
    for line, one in each_once(numbered, trajectories_from_rows(numbered, path=source), source):
        where = f"{source!r}, line {line}"
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
        raise UsageError("Name a measured file and files of scores: sweet-rl credit compare MEASURED SCORES")
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


@group("Scores")
class Discount(Settings):
    gamma: float = flag(1.0, "discount of later rewards.", at_least=0, at_most=1, shown="all")


@group("Scores")
class ScoreFlags(
    Discount, SavedPath, Critic, Advantage, WithoutHidden, Tokenizer, SaveSteps, Continuing, Quiet
):
    methods: str | None = flag(
        None,
        "methods, separated by commas, or all: outcome, grpo, mt_grpo, mt_grpo_biased, gigpo; trace, infopo, privileged, privileged_other; "
        "sweet, sweet_paper, blind; archer; judge; oracle. Default: the critic, with and without the hidden solution.",
    )
    output_path: str | None = flag(None, "file for scores; default STEM.credit.CRITIC.jsonl.")
    hidden: bool = flag(False, "without --methods: score only with the hidden solution.")
    blind_critic: str | None = flag(None, "critic of the method blind, trained without solutions.")
    agent: str | None = flag(None, "policy for trace, infopo and privileged, before it was trained.")
    archer_run: str | None = flag(None, "folder of run_archer for the method archer; its newest checkpoint.")
    judge: str | None = flag(None, "name of the chat model for the method judge, behind --judge_base_url.")
    judge_base_url: str | None = flag(None, "base URL of the judge's server, like https://host/v1.")
    oracle_of: str | None = flag(None, "world whose oracle judges turns, for the method oracle.")


def _score_facets(flags: Mapping[str, Any]) -> Facets:
    return {**facets(flags), **({"asked": {"server"}} if flags["judge"] else {})}


@recorded(
    "credit score",
    reads=("saved_path", "critic", "reference_model", "blind_critic", "agent", "archer_run", "tokenizer"),
    prices=True,
)
@stage(
    "saved_path",
    defaults={"save_steps": 256, "request_timeout_s": 600.0},
    helps={
        "critic": "critic: a checkpoint folder, a hub name, smollm2, embedded, or its name on the server.",
        "reference_model": "reference model that the critic is compared with; default: the model it was "
        "trained from (recorded in its folder), or else the log-probabilities that the "
        "sampler recorded.",
        "saved_path": "trajectory file, or sampled candidates of sweet-rl sample_best_of_n; it is not changed.",
        "save_steps": "turns that are scored and saved together; a killed run loses at most this many.",
        "without_hidden": "without --methods: score only without the hidden solution. Default, or with both flags: both scores.",
    },
    narrow={"save_steps": {"at_least": 1}},
    only={"base_url": SERVED, "api_key_var": None},
    facets=_score_facets,
)
def score(flags: ScoreFlags, scorers: ScorerFlags, /) -> None:
    """Score every turn of finished dialogues, or every candidate of a turn, by methods of credit assignment.

    The scores of all methods are in one row for each turn, in a separate file; `sweet-rl view` shows a critic's
    beside the dialogue. A missing number has a reason. Nothing is played again. docs/credit.md lists the methods.

    The smallest run: sweet-rl credit score trajectories.jsonl --critic path/to/critic
    """
    from sweet_rl.credit import methods as ours

    key_in(scorers.api_key_var)
    if flags.critic is not None and flags.reference_model is None and (base := trained_from(flags.critic)):
        flags = replace(flags, reference_model=base)
        tracking.reads("reference_model", base)
    methods = _methods(flags)
    numbered = list(read_rows(flags.saved_path))
    known: dict[Any, Any] = {}
    if numbered and "additional_outputs" in numbered[0][1]:
        rows = candidates_from_rows(numbered, path=flags.saved_path)
        asked = [ours.Asked(row, tuple(row.before), taken=False) for row in rows if row.candidates]
    else:
        trajectories = trajectories_from_rows(numbered, path=flags.saved_path)
        trajectories = [one for _, one in each_once(numbered, trajectories, flags.saved_path)]
        asked = [one for trajectory in trajectories for one in ours.asked_of(trajectory)]
        grouped = [name for name in methods if name in ours.GROUPED]
        known = ours.grouped_scores(trajectories, grouped, flags.gamma)
    if not asked:
        repair = "Make trajectories with sweet-rl simulate_interactions."
        raise UsageError(f"{flags.saved_path!r} holds no agent turns. {repair}")
    models = {"critic": flags.critic, "reference": flags.reference_model, "agent": flags.agent}
    models["blind"] = flags.blind_critic or flags.critic
    settings: dict[str, Json] = {"methods": methods, "advantage": flags.advantage, "gamma": flags.gamma}
    settings |= {role: None if name is None else identity_of(name) for role, name in models.items()}
    settings |= {name: getattr(flags, name) for name in ("archer_run", "judge", "oracle_of")}
    called = next((str(name) for name in (flags.critic, flags.agent, flags.judge) if name), "+".join(methods))
    called = Path(called).resolve().name if Path(called).is_dir() else called.replace("/", "_")
    saved = Path(flags.saved_path)
    output = Path(flags.output_path or saved.with_name(f"{saved.stem}.credit.{called}.jsonl"))
    by_key, turns = {one.turn.key: one for one in asked}, [one.turn for one in asked]

    async def work(todo: list[Any], journal: Journal, bar: Bar, _: None) -> None:
        async with AsyncExitStack() as stack:
            desk = await ours.Desk.open(models, flags, scorers, turns, stack)
            for start in range(0, len(todo), flags.save_steps):
                window = [by_key[turn.key] for turn in todo[start : start + flags.save_steps]]
                made = await ours.score_window(window, methods, desk, known)
                journal.append([row | {"critic": flags.critic, "credit": settings} for row in made])
                bar.update(len(window))

    digests = {turn.key: digest_of(turn) for turn in turns}
    how: dict[str, Any] = {"field": "credit", "quiet": flags.quiet, "noun": "turns", "digests": digests}
    write_turns(output, flags, turns, settings, work, **how)
    print(f"{len(turns)} turns with scores are in {output}.")
    if flags.critic is not None:
        print(f"The critic is compared with {flags.reference_model or 'what the sampler recorded'}.")
    made = [row for _, row in read_rows(output)]
    for name in methods:
        each = [own if isinstance(own := row["scores"][name], list) else [own] for row in made]
        numbers = [value for own in each for value in own if value is not None]
        mean = f", mean {fmean(numbers):+.3f}" if numbers else ""
        print(f"{name}: {len(numbers)} scores{mean}; {sum(row['cost'][name] for row in made):,} tokens read.")
        for why, count in sorted(Counter(row["why"][name] for row in made if name in row["why"]).items()):
            print(f"  {count} have none: {ours.WHY[why]}.")


def _methods(flags: ScoreFlags) -> list[str]:
    """The methods that are asked for; UsageError where one needs a flag."""
    from sweet_rl.credit.methods import GROUPED, READING

    needs = dict.fromkeys(GROUPED, ()) | {name: method.flags for name, method in READING.items()}
    usual = [] if flags.without_hidden and not flags.hidden else ["sweet"]
    usual = ["sweet_paper" for _ in usual] if flags.advantage == "paper" else usual
    usual += [] if flags.hidden and not flags.without_hidden else ["blind"]
    named, found = usual if flags.methods is None else listed(flags.methods), list[str]()
    for name in needs if flags.methods == "all" else dict.fromkeys(named):
        if name not in needs:
            raise no_such("method", name, needs)
        if not (missing := [flag for flag in needs[name] if not getattr(flags, flag)]):
            found.append(name)
        elif flags.methods == "all":
            print(f"{name} is left out: it needs --{missing[0]}.")
        else:
            raise UsageError(f"The method {name} needs --{missing[0]}; outcome and gigpo need no model.")
    return found


@group("Checking")
class CheckFlags(Discount, Tokenizer):
    rows_path: str = flag(REQUIRED, "rows of a trainer: .jsonl, .json or .parquet.")
    trajectories: str | None = flag(None, "file that the rows were made of: turns must have its tokens.")
    advantages: Literal["auto", "credit", "outcome", "turns", "other"] = flag(
        "auto",
        "how advantages come about: credit (a turn's credit less its group's baseline), outcome (one number for all turns "
        "of an episode), turns (return from the turn on less a baseline), other, or auto: by the columns.",
    )


@stage(
    "rows_path",
    helps={"tokenizer": "folder or name of the tokenizer of the rows: what ends and begins a turn."},
)
def check(flags: CheckFlags, /) -> None:
    """Check a trainer's rows: is what the agent said trained, and nothing else, by the right advantages?

    Reads rows of TRL, verl, OpenRLHF, SkyRL and verifiers, and of sweet-rl export_credit, by their columns
    (docs/credit.md). Each finding says what, where, and how to repair it; with any, the exit status is 1.

    The smallest run: sweet-rl credit check rows.jsonl
    """
    from sweet_rl.chat import load_tokenizer
    from sweet_rl.credit.check import findings_of, read_row
    from sweet_rl.preferences.ranking import encoding_by
    from sweet_rl.records import load_trajectories
    from sweet_rl.records.tables import rows_of

    numbered = rows_of(flags.rows_path, most=sys.maxsize)[0]
    rows = [row for line, one in numbered for row in read_row(line, one, flags.rows_path)]
    if not any(row.ids for row in rows):
        raise DataError("has no tokens of turns", path=flags.rows_path, repair="Have them recorded: verifiers does so with --client.type train.")  # fmt: skip
    known: dict[str, Any] = {"gamma": flags.gamma}
    if flags.tokenizer is not None:
        tokenizer = load_tokenizer(flags.tokenizer)
        known |= {"ends": encoding_by(tokenizer).end_ids, "special": frozenset(tokenizer.all_special_ids)}
    if flags.trajectories is not None:
        known["said"] = {one.key: one for one in load_trajectories(flags.trajectories)}
    found = findings_of(rows, flags.advantages, **known)
    for line, text in found:
        print(f"{flags.rows_path}, line {line}: {text}.")
    if found:
        raise DataError(f"{len(found)} findings in {len(rows)} rows", path=flags.rows_path)
    if bare := sum(not row.advantages for row in rows):
        print(f"{bare} rows have no advantages: only their tokens were checked.")
    print(f"{len(rows)} rows with {sum(len(row.turns) for row in rows)} turns: nothing was found.")

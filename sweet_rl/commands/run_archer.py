"""Online learning: ArCHer, Online CHAI, online filtered behaviour cloning.

Published behaviour: docs/published/archer.md#configuration.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import fields, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sweet_rl import tracking
from sweet_rl.chat import SMOLLM2, ChatFormat, InstructedChat, TokenizerChat, model_path
from sweet_rl.cli.parse import refuse
from sweet_rl.cli.progress import NEARLY_ALL, on_interrupt, silence_libraries
from sweet_rl.cli.stage import recorded, stage
from sweet_rl.commands.archer_config import ProgressBar, destination_of, load_config, not_of, owners_of
from sweet_rl.errors import ServiceError, UsageError
from sweet_rl.flags import Flag, Only, Settings, flag, group
from sweet_rl.online.settings import ON_POLICY, ArcherSettings, LoopSettings
from sweet_rl.players import ORACLES, PLACE_FLAGS, HumanFlags, oracle_flags
from sweet_rl.players.cast import Cast
from sweet_rl.prompts import load_prompt, prompt_digest
from sweet_rl.records import read_rows
from sweet_rl.tracking import Destination
from sweet_rl.types import Task, digest
from sweet_rl.version import __version__
from sweet_rl.worlds import Options, World, first_for, load_tasks, options_of, own_options, world_of

if TYPE_CHECKING:
    from sweet_rl.online.learner import Learner
    from sweet_rl.online.loop import Playground


@group("The configuration")
class ConfigFlags(Settings):
    config_name: str | None = flag(
        None,
        "configuration: one from configs/archer (an unknown name lists them), or a file of your own; default the first published one.",
    )
    config_dir: str | None = flag(None, "folder of the configuration file; default: the packaged ones.")


@recorded("run_archer", resumes=True)
@stage()
def run_archer(flags: ConfigFlags, /, *overrides: str) -> None:
    """Train a policy online, with ArCHer or another method: it plays and learns from its games.

    Settings are Hydra's: the name of a file in configs/archer, and key=value for each change. An unknown
    setting is refused; configs/archer/default.yaml explains them all. A run is a folder (save_path); the same
    command resumes it from its newest checkpoint, and ends with the same weights as a run that was never
    stopped.

    The smallest run needs no model and no download, and takes a minute:
    sweet-rl run_archer --config-name archer_debug
    Published runs, from a starting policy (sweet-rl run_bc trains one from scratch):
    sweet-rl run_archer --config-name NAME checkpoint_path=FOLDER use_wandb=false
    Several processes: accelerate launch --num_processes 4 -m sweet_rl run_archer --config-name NAME ...
    Any world that rewards turns, also of another package: world=WORLD or world=module:WORLD

    Args:
        flags: the configuration.
        overrides: settings to change, as key=value: lm_lr=1e-5 rollout_size=32.
    """
    run(flags.config_name or str(world_of(first_for("archer")).archer.config), overrides, flags.config_dir)


TINY = "tiny"  # models that are made here, from the seed

# Settings that have a meaning only with others; those of learning may be given to all that are compared.
_ONLY: Final = {
    Only("answered_by", ("oracle",), "worlds in which an oracle answers"): "oracle oracle_model",
    Only("answered_by", ("human",), "worlds in which a human answers"): "env_model env_base_url grader",
    Only("agent_type", ("archer", "archer_llm")): "use_baseline",
    Only("agent_type", ("archer", "archer_llm", "ppo", "reinforce")): "normalize_advantages",
    Only("agent_type", ("archer", "archer_llm", "chai")): "double_critic",
    Only("agent_type", ("ppo",)): "clip_range",
    Only("agent_type", ("chai",)): "candidates",
    Only("agent_type", ("online_filteredbc",)): "filter_quantile",
    Only("template", ("chat",), "template=chat"): "agent_prompt_path",
    Only("use_lora", ("true",)): "lora_rank lora_alpha lora_dropout target_modules",
    Only(
        "log_to", ("wandb", "trackio"), "use_wandb true, log_to wandb or log_to trackio"
    ): "project_name run_name",
}
# Settings that name what a run reads.
_READS: Final = "tasks eval_tasks policy_lm critic_lm checkpoint_path env_load_path agent_prompt_path".split()
# Templates by name: a world's for models that follow instructions, and a policy's tokenizer's for dialogues.
OWN_TEMPLATE, CHAT_TEMPLATE = "own", "chat"


def run(
    name: str, overrides: Sequence[str], folder: str | None, make: Callable[..., Learner] | None = None
) -> None:
    """Train as configured; resume a run that its folder already holds."""
    config = load_config(name, overrides, folder)
    destination, world = destination_of(config), world_of(config["env_name"])
    # The world's options: those that are settings, and what ArCHer calls by other names.
    values = {"max_turns": config["max_steps"], "compat": config["compat"], "place": config["env_load_path"]}
    own = {option.name: config[option.name] for option in own_options(world) if option.name in config}
    as_json = {"reads_json": True} if config["agent_type"] == "archer_llm" else {}
    options = options_of(world, values | as_json | own)
    cast = _who_answers(config, world, options)
    _check_overrides(overrides, config, world, destination)
    tracking.logs_to(destination)
    tasks, held_out = _tasks(config, world, options)
    template = template_of(config["template"], world, tasks)
    instructions = None  # what a policy that reads a dialogue in its own chat template reads first
    if config["template"] == CHAT_TEMPLATE:
        if config["compat"] == "published":
            raise UsageError(
                "template=chat: the published code, which compat=published computes, reads plain text. Leave one of them out."
            )
        path = config["agent_prompt_path"]
        instructions = world.system_prompt if path is None else load_prompt(path)
    loop_settings = _loop_settings(config)
    loop_settings = replace(loop_settings, concurrency=options.at_once(loop_settings.concurrency))

    kept = {**config, "template": template or config["template"]}
    tracking.sets(kept)
    for key in _READS:
        if config.get(key) == SMOLLM2:
            model_path(SMOLLM2)  # refused before anything is written
        tracking.reads(key, config.get(key))
    silence_libraries()
    from sweet_rl.online.loop import OnlineRun, RunFolder
    from sweet_rl.online.models import make_learner
    from sweet_rl.training import processes
    from sweet_rl.training.checkpoints import identity_of

    save_path = Path(str(config["save_path"])).expanduser()

    with ExitStack() as stack:
        stack.enter_context(processes.process_group())
        main, run_folder = processes.is_main(), None
        if main:
            read = {} if instructions is None else {"agent_prompt_path": prompt_digest(instructions)}
            run_folder = RunFolder(save_path, kept | read, overwrite=bool(config["overwrite"]))
            stack.callback(run_folder.close)
        models = processes.from_main(lambda: models_of(config, overrides, save_path))
        bar = ProgressBar(int(config["iterations"]), quiet=bool(config["quiet"])) if main else None
        if bar is not None:
            stack.callback(bar.close)
        settings = settings_of({**config, **models, "template": template})
        transcript = world.transcript()  # plain text, as the world writes it
        if instructions is not None:
            from transformers import AutoConfig

            shape: Any = AutoConfig.from_pretrained(model_path(settings.policy_lm))
            positions = getattr(shape.get_text_config(), "max_position_embeddings", None) or math.inf
            room = int(min(settings.max_context, positions - settings.max_new_tokens))
            transcript = InstructedChat(TokenizerChat.from_pretrained(settings.policy_lm), instructions, room)
        learner = (make or make_learner)(settings, chat_format=transcript, say=bar.say if bar else None)
        if run_folder is not None:
            run_folder.made_from = {
                "env_load_path": identity_of(config["env_load_path"]),
                "tasks": digest([task.row for task in tasks]),
                **{key: identity_of(source) for key, source in models.items()},
            }
        stack.enter_context(on_interrupt(f"What was played is in {save_path}; the same command resumes it."))
        playing = config, save_path / "trajectories.jsonl", cast, tasks, held_out, transcript
        playground = _playground(*playing, concurrency=loop_settings.concurrency) if main else None
        OnlineRun(loop_settings, learner, playground, run_folder, *((bar.log, bar.say) if bar else ())).run()
        learner.save_policy(save_path / "final")
    if main:
        _say_where(save_path, config)


@asynccontextmanager
async def _playground(
    config: Mapping[str, Any],
    rows: Path,
    cast: Cast,
    tasks: Sequence[Task],
    held_out: Sequence[Task],
    transcript: ChatFormat,
    *,
    concurrency: int,
) -> AsyncIterator[Playground]:
    """The world with who answers in it; where that is a human, what an episode is worth is graded at its end."""
    from sweet_rl.online.loop import Playground
    from sweet_rl.online.replay import without_rewards

    async with AsyncExitStack() as stack:
        playing = await stack.enter_async_context(cast.opened(None, concurrency=concurrency, path=rows))
        grade, grader = None, config["grader"]
        if cast.simulated:
            from sweet_rl.grading import GRADERS
            from sweet_rl.interface.grades import grading_as_they_end, grading_of

            by = {} if grader is None else {"grader": GRADERS.make(grader, cast.world, flag="grader")}
            graded = grading_as_they_end(grading_of(cast.options, by, folder=rows.parent))
            stack.push_async_callback(graded.close)
            grade = graded.submit if grader is None else lambda played: graded.submit(without_rewards(played))
        who = {} if playing.user is None else {"env_model": playing.user.name}
        provenance = {"sweet_rl": __version__, **who, "settings": cast.world.settings(cast.options)}
        yield Playground(playing.make_env, tasks, held_out, transcript, grade, provenance)


def _who_answers(config: Mapping[str, Any], world: World, options: Options) -> Cast:
    """The simulated human of worlds that have one, before it is made; else the oracle, for those that ask one."""
    human = oracle_flags(config["oracle"], config["env_load_path"], config["oracle_model"])
    if config["oracle"] == ORACLES[0] and config["oracle_model"]:
        model, others = config["oracle_model"], ", ".join(ORACLES[1:])
        raise UsageError(f"oracle_model={model} belongs to oracle={others}. Leave it out.")
    if world.user.by != "human":
        return Cast(world=world, options=options, human=human)
    usual = "scripted" if config["env_base_url"] is None else "auto"
    human = HumanFlags(env_model=config["env_model"] or usual, env_base_url=config["env_base_url"])
    called = {PLACE_FLAGS: "env_base_url", "--env_model": "env_model"}
    cast = Cast(world=world, options=options, human=human, called=called)
    cast.check_human()
    if config["grader"] is not None:
        from sweet_rl.grading import GRADERS

        GRADERS.find(config["grader"])
    return cast


def _check_overrides(
    overrides: Sequence[str], config: Mapping[str, Any], world: World, destination: Destination
) -> None:
    """Refuse settings on the command line that belong to another world, oracle or algorithm."""
    pairs = [override.partition("=") for override in overrides]
    given = [key for key, _, value in pairs if value.lower() not in {"null", "none", "~"}]
    own = {option.name for option in own_options(world)}
    of_all = {one.name for kind in (ArcherSettings, LoopSettings) for one in fields(kind)}
    for key in given:  # for the owners every world is loaded
        if key not in own | of_all and (owners := owners_of(key)):
            raise not_of(key, owners, world.name)
    asked = config["oracle"] if world.user.by == "oracle" else world.name
    if "env_load_path" in given and "place" not in own and asked not in ORACLES[1:]:
        where = [*ORACLES[1:], *owners_of("place")]
        raise UsageError(f"env_load_path belongs to {' or '.join(where)}, and this is {asked}. Leave it out.")
    facets: dict[str, set[str]] = {"agent_type": {str(config["agent_type"])}}
    facets |= {"use_lora": {str(config["use_lora"]).lower()}, "answered_by": {world.user.by}}
    facets |= {"template": {config["template"] or "none"}}
    facets |= {"log_to": set(destination.kinds) or {"none"}}
    flags = [
        Flag(name=key, only=only) for only, keys in _ONLY.items() for key in keys.split() if key in given
    ]
    refuse(flags, facets, dashes="")


def _tasks(config: Mapping[str, Any], world: World, options: Options) -> tuple[list[Task], list[Task]]:
    """What is played, and what is measured on: tasks of this world, with what they are graded by, if they are."""
    found = []
    for key, usual in zip(("tasks", "eval_tasks"), world.tasks.of(options), strict=True):
        source = config[key] or usual
        tasks = load_tasks(source)
        if tasks and (why := world.tasks.refusal(tasks, world.name)):
            raise UsageError(f"{key}={source} {why}")
        for task in tasks if config["grader"] is None else ():
            if lacking := world.tasks.lacks(task):
                raise UsageError(
                    f"{key}={source}: the task {task.task_id!r} has no {lacking}, which {world.name} is graded by. "
                    "Name other tasks, or a grader of your own."
                )
        found.append(tasks)
    tasks, held_out = found
    if (place := config["env_idx"]) is not None:
        if not (isinstance(place, int) and 0 <= place < len(tasks)):
            raise UsageError(f"env_idx must be from 0 to {len(tasks) - 1}, got {place!r}.")
        tasks = held_out = [tasks[place]]
    if not tasks or not held_out:
        raise UsageError("There is nothing to play: tasks or eval_tasks is empty.")
    return tasks, held_out


def models_of(config: Mapping[str, Any], overrides: Sequence[str], save_path: Path) -> dict[str, str | None]:
    """Names of the models and of weights to begin with; tiny ones are made first, adapters merged.

    A whole model at `checkpoint_path` stands for `policy_lm`, and a critic beside it for `critic_lm`, unless
    the command line says what that is.
    """
    from sweet_rl.online.loop import MODELS

    names = {key: config[key] for key in ("policy_lm", "critic_lm", "checkpoint_path")}
    overridden = {override.partition("=")[0] for override in overrides}
    if names["checkpoint_path"] is not None:
        from sweet_rl.online.models import find_init_weights

        found = find_init_weights(path := str(names["checkpoint_path"]))
        if "critic" in found and "critic_lm" not in overridden:
            names["critic_lm"] = str(found["critic"])
        if "adapter" in found:
            from sweet_rl.training.checkpoints import identity_of
            from sweet_rl.training.models import merge_adapter
            from sweet_rl.training.settings import ModelSettings

            adapter = found["adapter"]
            base = str(names["policy_lm"]) if "policy_lm" in overridden else ""  # "": the one that it names
            parts = (identity_of(str(adapter)), (adapter / "adapter_config.json").read_text(), base)
            found["model"] = save_path / MODELS / f"merged-{sha256(repr(parts).encode()).hexdigest()[:12]}"
            if not (found["model"] / "config.json").is_file():
                merge_adapter(adapter, found["model"], ModelSettings(pretrain=base))
        elif "weights" not in found and "policy_lm" in overridden:
            raise UsageError(
                f"checkpoint_path={path!r} is a whole model and replaces policy_lm: leave policy_lm out, or "
                "name a file of its weights."
            )
        if "weights" in found:
            names["checkpoint_path"] = str(found["weights"])
        else:
            names |= {"policy_lm": str(found["model"]), "checkpoint_path": None}
    if TINY in names.values():
        from sweet_rl.online.tiny_models import make_models

        made = zip(
            ("policy_lm", "critic_lm"), make_models(save_path / MODELS, seed=int(config["seed"])), strict=True
        )
        names |= {key: str(path) for key, path in made if names[key] == TINY}
    return names


def template_of(name: str | None, world: World, tasks: Sequence[Task]) -> str | None:
    """The text around observations."""
    if name in (None, CHAT_TEMPLATE):
        return None
    if name == OWN_TEMPLATE:
        return world.archer.template(tasks) if world.archer.template else f"{world.system_prompt}\n\n{{obs}}"
    return load_prompt(name).replace("{words}", ", ".join(task.hidden_information for task in tasks))


def settings_of(config: Mapping[str, Any]) -> ArcherSettings:
    """The settings of the algorithms in a configuration."""
    return ArcherSettings(
        **{one.name: config[one.name] for one in fields(ArcherSettings) if one.name in config}
    )


def _loop_settings(config: Mapping[str, Any]) -> LoopSettings:
    values = {one.name: config[one.name] for one in fields(LoopSettings) if one.name in config}
    values["on_policy"] = config["agent_type"] in ON_POLICY
    if config["agent_type"] != "online_filteredbc":
        values["filter_quantile"] = None
    if not values["on_policy"]:
        values["gamma"] = LoopSettings.gamma  # published, whatever the critic's discount
    if config["agent_type"] == "chai":
        values["warmup_iter"] = config["iterations"]  # its policy never learns
    return LoopSettings(**values)


def _say_where(save_path: Path, config: Mapping[str, Any]) -> None:
    rows = [row for _, row in read_rows(save_path / "metrics.jsonl")]
    for name, what in (
        ("eval_rollout.failed", "they were to be measured on, and are in no mean"),
        ("rollout.failed", "nothing was learned from them"),
    ):
        if failed := sum(row.get(name, 0) for row in rows):
            print(f"{failed} games failed, and {what}: {save_path / 'failures.jsonl'}")
    games = [save_path / f"{name}.jsonl" for name in ("evaluations", "trajectories")]
    print(
        f"{config['iterations']} iterations are done. The policy is in {save_path / 'final'}, the numbers "
        f"are in {save_path / 'metrics.jsonl'}; read the games with: "
        f"sweet-rl visualize_dialogue_histories {next((path for path in games if path.exists()), games[1])}"
    )
    if failed >= NEARLY_ALL * config["rollout_size"] * len(rows) > 0:
        raise ServiceError(f"Nearly all games failed ({failed}), so the policy had hardly any to learn from.")

"""Which world, agent, engine or human a flag belongs to: typed for another one it is refused, not ignored.

`RULES` is the one table. A stage says what it is about to do (its facets), and whatever was typed is held
against that before anything begins; a flag that was not typed is no matter.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sweet_rl.errors import UsageError

if TYPE_CHECKING:
    from sweet_rl.worlds import World

Facets = Mapping[str, Collection[str]]
"""What a run is about to do: for each facet that its stage has, the values in play."""

_MODELS: Final = "transformers vllm openai"


@dataclass(frozen=True, slots=True)
class Rule:
    """Flags that have a meaning only where a facet has one of these values; all separated by blanks."""

    flags: str
    facet: str
    values: str


RULES: Final = (
    # -- worlds
    Rule("user_prompt_path", "answered_by", "human"),
    Rule("temp_path image_url browser network allow_scripts viewport", "task_type", "html"),
    Rule("page_timeout_s browsers render_cache", "task_type", "html"),
    # -- who answers
    Rule("env_model hostname port env_base_url env_api_key_var", "answered_by", "human oracle"),
    Rule("oracle oracle_model", "answered_by", "oracle"),
    Rule("env_api_key_var user_prompt_path image_url", "human", "server"),
    Rule("oracle_model", "oracle", "seq2seq openai"),
    Rule("api_key_var", "oracle", "openai"),
    # -- who acts
    Rule("num_questions", "agent_model", "questioner"),
    Rule("skill", "agent_model", "asker careless"),
    Rule("unsafe_no_sandbox", "agent_model", "constant"),
    Rule("temperature", "engine", _MODELS),
    Rule("max_tokens", "engine", _MODELS),
    Rule("agent_base_url", "agent", "openai"),
    Rule("agent_api agent_api_key_var base_url", "engine", "openai"),
    Rule("device dtype max_batch max_batch_tokens", "engine", "transformers"),
    Rule("tensor_parallel_size data_parallel_size vllm_python vllm_args", "engine", "vllm"),
    Rule("reflection_base_url reflection_api reflection_api_key_var", "reflection", "model"),
    Rule("reflection_prompt_path reflection_tokens", "reflection", "model"),
    Rule("reflect_prob", "reflection", "model recap"),
    Rule("request_timeout_s request_attempts request_patience_s", "asked", "server"),
    # -- where, and how it is judged
    Rule("ray_address ray_workers ray_gpus_per_worker", "fan_out", "ray"),
    Rule("long_page device batch_size", "clip_model", "given"),
    Rule("metric margin", "judge", "metrics"),
    Rule("hostname port base_url api_key_var prompt_path max_tokens max_pixels batch_size", "judge", "model"),
    Rule("request_timeout_s request_attempts output_path", "judge", "model"),
    Rule("browser network allow_scripts viewport page_timeout_s browsers render_cache", "judge", "model"),
    # -- Reflect-RL
    Rule("model api_key_var request_timeout_s request_attempts", "teacher", "openai"),
    Rule("ppo_clip_coef ppo_update_iter", "trainer", "ppo"),
    Rule("critic_update_freq critic_update_iter shared_critic critic_layer_type", "critic", "used"),
    Rule("reflect_model_name reflect_prob reflect_max_new_tokens", "reflect", "asked"),
    # -- ArCHer; settings of learning may be given to all that are compared
    Rule("use_baseline normalize_advantages", "agent_type", "archer archer_llm"),
    Rule("candidates", "agent_type", "chai"),
    Rule("filter_quantile", "agent_type", "online_filteredbc"),
    Rule("lora_rank lora_alpha lora_dropout target_modules", "use_lora", "true"),
    Rule("project_name run_name", "use_wandb", "true"),
)

_WORDS: Final = {
    "task_type": "the world {values}",
    "answered_by": "the world {values}",
    "human": "a human behind a server (--hostname, --port or --env_base_url)",
    "asked": "models behind a server",
    "engine": "a model run by {values}",
    "reflection": "a --reflection_model {values}",
    "clip_model": "--clip_model",
    "critic": "--use_critic",
    "reflect": "--reflect",
}
"""How a facet is called where it is more than the flag of its name."""


def check(typed: Collection[str], facets: Facets, *, dashes: str = "--") -> None:
    """Refuse what was typed and has no meaning here.

    Args:
        typed: names of the flags.
        facets: what the stage is about to do.
        dashes: stand before a flag's name.

    Raises:
        UsageError: names the flag, and the worlds, agents or engines that have it.
    """
    from sweet_rl.worlds import names, world_of

    for world in map(world_of, facets.get("task_type", ())):
        _check_options(typed, world, dashes)
    for rule in RULES:
        here = facets.get(rule.facet)
        wrong = sorted(set(rule.flags.split()).intersection(typed))
        allowed = rule.values.split()
        if here is None or not wrong or not set(here).isdisjoint(allowed):
            continue
        if rule.facet == "answered_by":
            allowed = [world for world in names() if world_of(world).answered_by in allowed]
            here = facets["task_type"]
        words = _WORDS.get(rule.facet, f"{dashes}{rule.facet} {{values}}").format(values=" or ".join(allowed))
        now = f", and this is {' and '.join(sorted(here))}" if here else ""
        raise UsageError(f"{dashes}{wrong[0]} belongs to {words}{now}. Leave it out.")


def _check_options(typed: Collection[str], world: World, dashes: str) -> None:
    from sweet_rl.worlds import flags_of, worlds_with

    mine = flags_of(world)
    for flag in sorted(typed):
        if flag not in mine and (owners := worlds_with(flag)):
            raise UsageError(
                f"{dashes}{flag} belongs to the world {' or '.join(owners)}, and this is {world.name}. "
                "Leave it out."
            )


def belonging(facets: Callable[[Mapping[str, Any]], Facets]) -> Callable[[Any], Any]:
    """Let the command line check what a person typed for this stage; calls from Python pass.

    Args:
        facets: what the stage is about to do, from all its values; it may raise UsageError.
    """

    def decorate(stage: Any) -> Any:
        stage.facets = facets
        return stage

    return decorate

"""A flag that is typed for a world, agent or engine that does not have it is refused, and the error says who has it."""

import pytest

from sweet_rl.cli import load
from sweet_rl.cli.parse import read, values_of
from sweet_rl.commands.archer_config import CONFIGS
from sweet_rl.commands.run_archer import _ONLY
from sweet_rl.commands.run_archer import run as run_archer
from sweet_rl.errors import UsageError
from sweet_rl.worlds import names, world_of
from tests.commands.test_run_archer import TINY

SIMULATE = "simulate_interactions mini:test out.jsonl"


def understood(line):
    stage, *words = line.split()
    if stage == "reflect":
        stage = f"{stage} {words.pop(0)}"
    function = load(stage)
    rewrite = getattr(function, "rewrite_arguments", list)
    return values_of(function, read(function, rewrite(words)))


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("--task_type twenty_questions --leaveout_prob 0.5", "--leaveout_prob belongs to the world auto_explore, and"),
        ("--task_type twenty_questions --leaveout_prob 0.0", "this is twenty_questions"),  # its default
        ("--browser firefox", "--browser belongs to the world html, and this is code"),
        ("--image_url png", "--image_url belongs to the world html"),
        ("--task_type html --env_model scripted --image_url png", "--image_url belongs to a human behind a server"),
        ("--skill 1", "--skill belongs to --agent_model asker, careless or hasty, and this is questioner"),
        ("--task_type dangerous_taxi --skill 0.5", "this is planner"),
        ("--task_type lantern --env_model scripted", "--env_model belongs to worlds in which a human or an oracle"),
        ("--agent_model oracle --num_questions 3", "--num_questions belongs to --agent_model questioner"),
        ("--agent_model owner/m --num_questions 3", "and this is owner/m"),
        ("--agent_model owner/m --vllm_args x", "--vllm_args belongs to a model run by vllm, and this is transformers"),
        ("--agent_model owner/m --agent openai --dtype auto", "--dtype belongs to a model run by transformers"),
        ("--agent_model owner/m --agent_base_url http://a/v1 --vllm_python p", "--vllm_python belongs to .* vllm"),
        ("--agent_model owner/m --agent vllm --agent_base_url http://a/v1", "--agent_base_url belongs to --agent openai"),
        ("--agent_model owner/m --agent_api chat", "--agent_api belongs to a model run by openai"),
        ("--agent_model oracle --temperature 1", "--temperature belongs to a model run by transformers or vllm or"),
        ("--env_model scripted --env_api_key_var K", "--env_api_key_var belongs to a human behind a server"),
        ("--env_model scripted --request_attempts 2", "--request_attempts belongs to models behind a server"),
        ("--env_model scripted --env_request {}", "--env_request belongs to a human behind a server"),
        ("--env_model scripted --env_max_tokens 9", "--env_max_tokens belongs to a human, of a world of dialogues"),
        ("--task_type twenty_questions --port 1 --env_system_prompt x", "--env_system_prompt belongs to a human, of"),
        ("--agent_model owner/m --agent_header a:b", "--agent_header belongs to --agent openai"),
        ("--reflect_prob 0.5", "--reflect_prob belongs to a --reflection_model model or recap"),
        ("--reflection_model recap --reflection_tokens 9", "--reflection_tokens belongs to a --reflection_model model"),
        ("--with_prompt", "--with_prompt belongs to the world dangerous_taxi"),
        ("--compat fixed", "--compat belongs to the world html, guess_my_city"),
        ("--game_place x --task_type alfworld", "--game_place belongs to the world auto_explore, detective"),
    ],
)  # fmt: skip
def test_simulations(line, says):
    with pytest.raises(UsageError, match=says):
        understood(f"{SIMULATE} {line}")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("play lantern --game_place x", "--game_place belongs to the world auto_explore"),
        (
            "play twenty_questions --api_key_var K",
            "--api_key_var belongs to --oracle openai, and this is embedded",
        ),
        ("evaluate_code f --ray_workers 2", "--ray_workers belongs to --fan_out ray, and this is local"),
        ("evaluate_html f --batch_size 2", "--batch_size belongs to --clip_model"),
        ("judge_html a b --margin 0", "--margin belongs to --judge metrics, and this is model"),
        ("judge_html a b --judge metrics --port 1", "--port belongs to --judge model"),
        ("sample_best_of_n a b owner/m --vllm_args x", "--vllm_args belongs to a model run by vllm"),
        ("rank_best_of_n a b m --base_url http://a", "--base_url belongs to a model run by openai"),
        ("rank_best_of_n a b m --engine vllm --dtype auto", "--dtype belongs to a model run by transformers"),
        ("reflect gen_task --model gpt-4", "--model belongs to --teacher openai, and this is embedded"),
        (
            "reflect evaluate_gpt --scenario alfworld --extra full",
            "--extra belongs to the world dangerous_taxi",
        ),
        (
            "reflect rl_finetune --env taxi --leaveout_prob 0",
            "--leaveout_prob belongs to the env auto_explore, and this is taxi",
        ),
        (
            "reflect rl_finetune --ppo_clip_coef 0.1",
            "--ppo_clip_coef belongs to --trainer ppo, and this is pg",
        ),
        ("reflect rl_finetune --reflect_prob 1", "--reflect_prob belongs to --reflect"),
        (
            "reflect evaluate --env alfworld --taxi_curriculum",
            "--taxi_curriculum belongs to the env dangerous_taxi, and this is alfworld",
        ),
    ],
)
def test_other_stages(line, says):
    with pytest.raises(UsageError, match=says):
        understood(line)


@pytest.mark.parametrize(
    "line",
    [
        *(f"{SIMULATE} --task_type {world} --agent_model {name}" for world in names() for name in world_of(world).agents),
        f"{SIMULATE} --agent_model owner/m --env_model auto --hostname h --port 1 --env_api_key_var K --train",
        f"{SIMULATE} --agent_model owner/m --agent openai --agent_base_url http://a/v1 --agent_api chat --max_tokens 9",
        f"{SIMULATE} --agent_model oracle --reflection_model owner/m --max_batch 4 --dtype auto --reflection_tokens 5",
        f"{SIMULATE} --agent_model oracle --env_base_url None --vllm_python None",
        f"{SIMULATE} --task_type guess_my_city --skill 0.5 --env_model embedded",
        f"{SIMULATE} --task_type alfworld --agent_model careless --skill 0.5 --shuffle_action --compat published",
        "reflect rl_finetune --env taxi --leaveout_prob 0 --strict",
        "reflect supervised_pretrain --leaveout_prob 0 --env taxi",
        "reflect evaluate_gpt --shuffle_action --scenario alfworld --concurrency 3",
        "reflect evaluate_gpt --shuffle_action --world alfworld --horizon 3",
        "reflect rl_finetune --world taxi --taxi_curriculum --max_turns 20",
        "play webshop --game_place http://a --compat published",
        "evaluate_html f --clip_model m --device cpu",
    ],
)  # fmt: skip
def test_a_flag_is_welcome_where_it_has_a_meaning(line):
    assert understood(line)


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("webshop_lower=1", "webshop_lower belongs to the world webshop, and this is twenty_questions"),
        ("env_load_path=x", "env_load_path belongs to seq2seq or openai"),
        ("candidates=5", "candidates belongs to agent_type chai, and this is archer"),
        ("filter_quantile=0.9", "filter_quantile belongs to agent_type online_filteredbc"),
        ("clip_range=0.1", "clip_range belongs to agent_type ppo, and this is archer"),
        ("lora_rank=4", "lora_rank belongs to use_lora true, and this is false"),
        ("run_name=x", "run_name belongs to use_wandb true"),
    ],
)
def test_settings_of_another_world_or_algorithm(override, says, tmp_path):
    with pytest.raises(UsageError, match=says):
        run_archer("archer_debug", [*TINY, f"save_path={tmp_path / 'run'}", override], None)
    assert not (tmp_path / "run").exists()


def test_settings_that_belong_somewhere_are_there():
    """A rule about a setting that is gone would never fire."""
    config = {line.partition(":")[0] for line in (CONFIGS / "default.yaml").read_text().splitlines()}
    assert {key for keys in _ONLY.values() for key in keys.split()} <= config

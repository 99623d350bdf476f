"""Flags and names that have no meaning in a run are refused before it begins."""

import ast
import asyncio
import re
from dataclasses import replace
from functools import cache

import pytest

from sweet_rl.cli.main import load, stages
from sweet_rl.cli.parse import read, stage_flags, values_of
from sweet_rl.commands.archer_config import CONFIGS
from sweet_rl.commands.run_archer import _ONLY
from sweet_rl.commands.run_archer import run as run_archer
from sweet_rl.errors import DataError, UsageError
from sweet_rl.players import HumanFlags, PlayerFlags
from sweet_rl.players.cast import Cast
from sweet_rl.types import Task
from sweet_rl.worlds import AgentRequest, load_tasks, names, world_of
from tests.commands.test_run_archer import TINY
from tests.conftest import ROOT

PACKAGE = ROOT / "sweet_rl"
TASK = Task("chess/1", "win", "e4", "e4", None, {})
AGENT = PlayerFlags(agent_model="asker", max_tokens=8, device="cpu", request_attempts=1)
HUMAN = HumanFlags(env_model="scripted", request_attempts=1)


def player(world="code", **flags):
    return Cast(agent=replace(AGENT, **flags), world=world_of(world))


def human(world="code", **flags):
    return Cast(human=replace(HUMAN, **flags), world=world_of(world))


@pytest.mark.parametrize("world", names())
def test_an_unknown_agent_is_no_other_one(world):
    with pytest.raises(UsageError, match=f"There is no player of {world} 'novice'.*Known: "):
        asyncio.run(world_of(world).make_agent(AgentRequest(name="novice", tasks=[TASK])))


def test_an_unknown_world_is_nobody_elses():
    with pytest.raises(UsageError, match=r"There is no world 'chess'.*Known: code, html, "):
        world_of("chess")


def test_a_wrong_row_of_a_worlds_own_list_names_the_world(monkeypatch):
    monkeypatch.setattr(type(world_of("lantern")), "rows", lambda *_, **__: [{"task_id": "lantern/1"}])
    with pytest.raises(DataError, match=r"^lantern:test of the world lantern, line 1: field 'problem_desc"):
        load_tasks("lantern:test")


@pytest.mark.parametrize("kind", ["embedded", "openai"])
def test_a_world_without_an_oracle_has_nobody_elses(kind):
    with pytest.raises(UsageError, match=r"lantern has no (human or )?oracle that"):
        world = world_of("lantern")
        if kind == "embedded":
            world.user.make("lantern")
        world.user.make_oracle(kind, "http://127.0.0.1:9", model="m", world="lantern")


@pytest.mark.parametrize(
    ("world", "model", "says"),
    [
        ("code", "oracl", r"no agent for --world code 'oracl' \(did you mean oracle\?\). Known: questioner,"),
        ("code", "asker", "asker plays guess_my_city, twenty_questions"),
        ("html", "target2", "did you mean target"),
        ("lantern", "walktrough", "did you mean walkthrough"),
        ("code", "gpt2", "add --agent transformers, vllm or openai"),
    ],
)
def test_an_unknown_agent_is_no_model_to_look_for(world, model, says):
    with pytest.raises(UsageError, match=says):
        asyncio.run(player(world, agent_model=model).make_policy([TASK], 1))


def test_models_are_folders_hub_names_or_said_to_be_models(tmp_path):
    for model in (str(tmp_path), "owner/name", "embedded"):
        assert player(agent_model=model).engine == "transformers"
    assert player(agent_model="gpt2", agent="transformers").engine == "transformers"
    assert player(agent_model="gpt2", vllm_python="python").engine == "vllm"
    assert player(agent_model="gpt2", agent_base_url="http://a/v1").engine == "openai"


def test_an_unknown_reflection_model_is_named(tmp_path):
    cast = player(agent_model="oracle", reflection_model="recapp")
    with pytest.raises(UsageError, match=r"no --reflection_model 'recapp' \(did you mean recap\?\)"):
        asyncio.run(cast.make_policy([TASK], 1))


def test_an_unknown_human_is_not_a_server_that_does_not_answer():
    for model in ("scriptd", "Auto"):
        with pytest.raises(UsageError, match=rf"no --env_model {model} \(did you mean --env_model \w+\?\)"):
            human(env_model=model).check_human()
    human(env_model="scriptd", port=8000).check_human()  # a server may call its model so
    human(env_model="llama-70b").check_human()


def test_in_question_games_a_model_needs_a_server():
    for model in ("embedded", "auto", "scripted"):
        human("guess_my_city", env_model=model).check_human()
    with pytest.raises(UsageError, match=r"'gpt-4o'. Known: embedded, auto, scripted. A model answers"):
        human("guess_my_city", env_model="gpt-4o").check_human()
    human("guess_my_city", env_model="gpt-4o", env_base_url="http://127.0.0.1:9/v1").check_human()


@cache
def texts():
    """The texts of the library that may reach a person, each with its file; what is filled in stands as WORD."""
    found = []
    for path in (path for kind in ("js", "html", "txt", "jinja") for path in PACKAGE.rglob(f"*.{kind}")):
        found.append((path, path.read_text("utf-8")))
    for path in PACKAGE.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
        joined = [node for node in nodes if isinstance(node, ast.JoinedStr)]
        pieces = {id(part) for node in joined for part in node.values}
        for node in joined:
            words = (part.value if isinstance(part, ast.Constant) else "WORD" for part in node.values)
            found.append((path, "".join(words)))
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in pieces:
                found.append((path, node.value))
    return found


def commands_in(text):
    """The stages that a text names as commands, each with its flags as far as the command goes."""
    for match in re.finditer(r"(?<![\w/-])sweet-rl ([a-z_]+)( \w+)?([^`\n;]*)", text):
        first, second = match[1], (match[2] or "").strip()
        group = any(name.startswith(f"{first} ") for name in stages())
        rest = re.split(r"[,.:;)]\s|\)", f"{match[2] or ''}{match[3]}")[0]
        if not group or not second.isupper():  # "reflect NAME"
            yield f"{first} {second}" if group else first, re.findall(r"(?<!\S)--([\w-]+)", rest)


@cache
def flags_of(stage):
    """Every name of every flag of a stage, those of its worlds among them."""
    function = load(stage)
    options = getattr(function, "options", None)
    of_worlds = [options.flags(name) for name in options.names()] if options else []
    return {name for some in (stage_flags(function), *of_worlds) for one in some for name in one.names}


def test_commands_that_are_printed_exist_with_their_flags():
    named, wrong = set(), []
    for path, text in texts():
        for stage, flags in commands_in(text) if "sweet-rl " in text else ():
            named.add(stage)
            known = flags_of(stage) if stage in stages() else ()
            wrong += [(path.name, stage)] if stage not in stages() else []
            wrong += [(path.name, stage, flag) for flag in flags if flag.replace("-", "_") not in known]
    assert not wrong
    assert {"view", "compare", "evaluate_code", "reflect evaluate", "fetch_model"} <= named


def test_no_text_names_a_stage_as_a_script_that_an_installed_package_lacks():
    stage = re.compile(rf"(?<![\w.])(?:scripts/|visualizers/)?(?:{'|'.join(stages())})\.py\b")
    named = [(path, text) for path, text in texts() if ".py" in text and path.parts[-2] != "sandbox"]
    found = [(path.name, match[0]) for path, text in named for match in stage.finditer(text)]
    assert not found


SIMULATE = "simulate_interactions mini:test out.jsonl"


def understood(line):
    stage, *words = line.split()
    if stage == "reflect":
        stage = f"{stage} {words.pop(0)}"
    function = load(stage)
    rewrite = getattr(function, "rewrite_arguments", list)
    return values_of(function, read(function, rewrite(words)))


SIMULATIONS = [
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
]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "says"),
    [
        *((f"{SIMULATE} {line}", says) for line, says in SIMULATIONS),
        ("play lantern --game_place x", "--game_place belongs to the world auto_explore"),
        ("evaluate_code f --ray_workers 2", "--ray_workers belongs to --fan_out ray, and this is local"),
        ("evaluate_html f --batch_size 2", "--batch_size belongs to --clip_model"),
        ("judge_html a b --margin 0", "--margin belongs to --judge metrics, and this is model"),
        ("judge_html a b --judge metrics --port 1", "--port belongs to --judge model"),
        ("sample_best_of_n a b owner/m --vllm_args x", "--vllm_args belongs to a model run by vllm"),
        ("rank_best_of_n a b m --base_url http://a", "--base_url belongs to a model run by openai"),
        ("rank_best_of_n a b m --engine vllm --dtype auto", "--dtype belongs to a model run by transformers"),
        ("reflect gen_task --model gpt-4", "--model belongs to --teacher openai, and this is embedded"),
        ("reflect evaluate_gpt --scenario alfworld --extra full", "--extra belongs to the world"),
        ("reflect rl_finetune --env taxi --leaveout_prob 0", "--leaveout_prob belongs to the env"),
        ("reflect rl_finetune --ppo_clip_coef 0.1", "--ppo_clip_coef belongs to --trainer ppo, and this is"),
        ("reflect rl_finetune --reflect_prob 1", "--reflect_prob belongs to --reflect"),
        ("reflect evaluate --env alfworld --taxi_curriculum", "--taxi_curriculum belongs to the env"),
    ],
)
def test_a_flag_without_a_meaning_is_refused(line, says):
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

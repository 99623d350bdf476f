"""No name stands for somebody else's world, agent or human: an unknown one is an error that lists the known."""

import ast
import asyncio
import re
import socket
from collections import Counter
from dataclasses import replace

import pytest

from sweet_rl.cli.main import load, stages
from sweet_rl.cli.parse import stage_flags
from sweet_rl.commands.agents import AgentFlags, Player, ReflectionFlags, make_policy, scripted_agent
from sweet_rl.commands.humans import Human, HumanFlags, OracleFlags, make_oracle, make_user
from sweet_rl.commands.simulate_interactions import simulate_interactions
from sweet_rl.errors import UsageError
from sweet_rl.types import Task
from sweet_rl.worlds import names, world_of
from tests.conftest import ROOT

PACKAGE = ROOT / "sweet_rl"
TASK = Task("chess/1", "win", "e4", "e4", None, {})
AGENT = AgentFlags(agent_model="asker", max_tokens=8, device="cpu", request_attempts=1)
HUMAN = HumanFlags(env_model="scripted", request_attempts=1)


def player(world="code", **flags):
    return Player(flags=replace(AGENT, **flags), world=world_of(world))


def human(world="code", **flags):
    return Human(replace(HUMAN, **flags), world_of(world))


@pytest.mark.parametrize("world", names())
def test_an_unknown_agent_is_no_other_one(world):
    with pytest.raises(UsageError, match=f"There is no player of {world} 'novice'.*Known: "):
        asyncio.run(scripted_agent(player(world, agent_model="novice"), [TASK], ""))


def test_an_unknown_world_is_nobody_elses():
    with pytest.raises(UsageError, match=r"There is no world 'chess'.*Known: code, html, "):
        world_of("chess")


def test_what_is_no_world_is_refused():
    with pytest.raises(UsageError, match="'string:digits' is no world but '0123456789'"):
        world_of("string:digits")


@pytest.mark.parametrize("kind", ["embedded", "openai"])
def test_a_world_without_an_oracle_has_nobody_elses(kind):
    with pytest.raises(UsageError, match=r"lantern has no (human or )?oracle that"):
        make_oracle(world_of("lantern"), OracleFlags(kind, "http://127.0.0.1:9", "m"), concurrency=1)


@pytest.mark.parametrize(
    ("world", "model", "says"),
    [
        (
            "code",
            "oracl",
            r"no agent for --world code 'oracl' \(did you mean oracle\?\). Known: questioner, oracle, ",
        ),
        ("code", "asker", "asker plays guess_my_city, twenty_questions"),
        ("html", "target2", "did you mean target"),
        ("lantern", "walktrough", "did you mean walkthrough"),
        ("code", "gpt2", "add --agent transformers, vllm or openai"),
    ],
)
def test_an_unknown_agent_is_no_model_to_look_for(world, model, says):
    with pytest.raises(UsageError, match=says):
        asyncio.run(make_policy(player(world, agent_model=model), [TASK], concurrency=1))


def test_models_are_folders_hub_names_or_said_to_be_models(tmp_path):
    for model in (str(tmp_path), "owner/name", "embedded"):
        assert player(agent_model=model).engine() == "transformers"
    assert player(agent_model="gpt2", agent="transformers").engine() == "transformers"
    assert player(agent_model="gpt2", vllm_python="python").engine() == "vllm"
    assert player(agent_model="gpt2", agent_base_url="http://a/v1").engine() == "openai"


def test_an_unknown_reflection_model_is_named(tmp_path):
    flags = replace(player(agent_model="oracle"), reflection=ReflectionFlags(reflection_model="recapp"))
    with pytest.raises(UsageError, match=r"no --reflection_model 'recapp' \(did you mean recap\?\)"):
        asyncio.run(make_policy(flags, [TASK], concurrency=1))


def test_an_unknown_human_is_not_a_server_that_does_not_answer():
    for model in ("scriptd", "Auto"):
        with pytest.raises(UsageError, match=rf"no --env_model {model} \(did you mean --env_model \w+\?\)"):
            human(env_model=model).check()
    human(env_model="scriptd", port=8000).check()  # a server may call its model so
    human(env_model="llama-70b").check()


def test_in_question_games_a_model_needs_a_server():
    for model in ("embedded", "auto", "scripted"):
        human("guess_my_city", env_model=model).check()
    with pytest.raises(
        UsageError, match=r"'gpt-4o'. Known: embedded, auto, scripted. A model answers through"
    ):
        human("guess_my_city", env_model="gpt-4o").check()
    human("guess_my_city", env_model="gpt-4o", env_base_url="http://127.0.0.1:9/v1").check()


def test_where_nobody_named_a_server_the_error_lists_who_is_here(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    monkeypatch.setattr(HumanFlags, "server_named", property(lambda self: False))
    with pytest.raises(UsageError, match=r"'llama' here|without a server 'llama'. Known: scripted, auto"):
        asyncio.run(make_user(human(env_model="llama", port=port), concurrency=1))


def test_an_unknown_world_is_named_before_anything_else(tmp_path):
    with pytest.raises(UsageError, match=r"no world 'twenty_question' \(did you mean twenty_questions\?\)"):
        simulate_interactions("mini:test", str(tmp_path / "o.jsonl"), task_type="twenty_question")


def texts(path):
    """The texts of a source file that may reach a person; what is filled in stands as WORD."""
    if path.suffix != ".py":
        yield path.read_text("utf-8")
        return
    tree = ast.parse(path.read_text("utf-8"))
    pieces = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "WORD" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in pieces:
            yield node.value


def commands_in(text):
    """The stages that a text names as commands, each with its flags as far as the command goes."""
    for match in re.finditer(r"(?<![\w/-])sweet-rl ([a-z_]+)( \w+)?([^`\n;]*)", text):
        first, second = match[1], (match[2] or "").strip()
        group = any(name.startswith(f"{first} ") for name in stages())
        rest = re.split(r"[,.:;)]\s|\)", f"{match[2] or ''}{match[3]}")[0]
        if not group or not second.isupper():  # "reflect NAME"
            yield f"{first} {second}" if group else first, re.findall(r"(?<!\S)--([\w-]+)", rest)


def test_commands_that_are_printed_exist_with_their_flags():
    sources = [
        path for kind in ("*.py", "*.js", "*.html", "*.txt", "*.jinja") for path in PACKAGE.rglob(kind)
    ]
    named, wrong = Counter(), []
    for path, text in ((source, text) for source in sources for text in texts(source)):
        for stage, flags in commands_in(text):
            named[stage] += 1
            if stage not in stages():
                wrong.append((path.name, stage))
                continue
            function = load(stage)
            options = getattr(function, "options", None)
            of_worlds = [options.flags(name) for name in options.names()] if options else []
            known = {
                name for some in (stage_flags(function), *of_worlds) for one in some for name in one.names
            }
            wrong += [(path.name, stage, flag) for flag in flags if flag.replace("-", "_") not in known]
    assert not wrong
    assert {"view", "compare", "evaluate_code", "reflect evaluate", "fetch_model"} <= named.keys()


def test_no_text_names_a_stage_as_a_script_that_an_installed_package_lacks():
    stage = rf"(?<![\w.])(?:scripts/|visualizers/)?(?:{'|'.join(stages())})\.py\b"
    found = [
        (path.name, match[0])
        for path in PACKAGE.rglob("*.py")
        for text in texts(path)
        if path.parts[-2] != "sandbox"
        for match in re.finditer(stage, text)
    ]
    assert not found

"""SmolLM2 behind servers, as agent and as human: llama.cpp reads its GGUF file, vLLM its folder.

`make test-llama` and `make test-vllm` set the servers up.
"""

import asyncio
import json
import os
import socket
import subprocess
import threading
import urllib.request

import pytest

from sweet_rl.chat import SMOLLM2, load_tokenizer
from sweet_rl.chat.formats import SMOLLM2_GGUF, user_cache
from sweet_rl.cli import load
from sweet_rl.policies.vllm import VLLMServer
from tests.test_smollm2 import TASKS, agent_turns, rows_of
from tests.vllm.test_vllm import ARGS, PYTHON, small_and_offline  # noqa: F401

pytestmark = [pytest.mark.smollm2, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def llama():
    """The address of a llama.cpp server."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [
        os.environ["SWEET_RL_LLAMA_PYTHON"], "-m", "llama_cpp.server", "--port", str(port), "--n_ctx", "1024",
        "--model", str(user_cache() / "models" / SMOLLM2_GGUF), "--model_alias", SMOLLM2,
    ]  # fmt: skip
    told, up = [], threading.Event()

    def listen(server):
        for line in server.stdout:
            told.append(line)
            if "startup complete" in line:
                up.set()
        up.set()

    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        reader = threading.Thread(target=listen, args=[server])
        reader.start()
        up.wait(120)
        assert server.poll() is None, "".join(told)
        yield f"http://127.0.0.1:{port}"
        server.terminate()
        reader.join()


@pytest.fixture(scope="module")
def vllm(tmp_path_factory):
    """The address of a vLLM server, which is given the name alone."""
    # the human is greedy, as published, and this one then repeats itself up to the 4,096 tokens that it is asked for
    args = (*ARGS, "--override-generation-config", '{"max_new_tokens": 64}')
    server = VLLMServer(SMOLLM2, python=PYTHON, args=args, log_path=tmp_path_factory.mktemp("vllm") / "log")
    asyncio.run(server.start())
    yield server.base_url.removesuffix("/v1")
    asyncio.run(server.stop())


@pytest.mark.parametrize(
    "server", [pytest.param("llama", marks=pytest.mark.llama), pytest.param("vllm", marks=pytest.mark.vllm)]
)
def test_a_dialogue_of_the_model_with_itself(server, request, tmp_path):
    url = f"{request.getfixturevalue(server)}/v1"
    path = tmp_path / "rows.jsonl"
    load("simulate_interactions")(
        TASKS, str(path), agent="openai", agent_model=SMOLLM2, agent_base_url=url, tokenizer=SMOLLM2, num_tasks=2,
        env_model=SMOLLM2, env_base_url=url, max_turns=2, max_tokens=16, batch_size=1, request_timeout_s=300.0,
        quiet=True,
    )  # fmt: skip
    rows = rows_of(path)
    assert len(rows) == 2
    chat = load_tokenizer(SMOLLM2)
    for row in rows:
        assert not row.get("failures")
        assert [entry["role"] for entry in row["dialogue_history"]] == ["user", "assistant"] * 2
        assert row["dialogue_history"][2]["content"].strip()  # the human's
        for turn in agent_turns(row):
            assert turn["input"].startswith("<|im_start|>system\n")
            assert "<|im_" not in turn["content"]
            if server == "vllm":
                assert len(turn["token_ids"]) == len(turn["logprobs"]) <= 16
            else:
                assert len(chat(turn["output"])["input_ids"]) <= 16
    record = json.loads((tmp_path / "rows.jsonl.run.json").read_text())
    assert {SMOLLM2} == {model for role in record["usage"].values() for model in role}


@pytest.mark.llama
def test_llama_cpp_has_the_same_tokens(llama, tmp_path):
    """The tokenizer of our folder is rebuilt from what the GGUF file says; this server reads the file itself."""
    path = tmp_path / "expert.jsonl"
    load("simulate_interactions")(
        "mini:families:test", str(path), agent_model="expert", env_model="scripted", tokenizer=SMOLLM2, num_tasks=20,
        quiet=True,
    )  # fmt: skip
    texts = [turn["input"] + turn["output"] for row in rows_of(path) for turn in agent_turns(row)]
    texts += [
        "x = 10\n    12  7",
        "naïve 早上好 ½ \t\r\n",
        "don't we'LL I'm 3.14e-05",
        " \n \n  x",
        "    \n1",
    ]
    tokenizer = load_tokenizer(SMOLLM2)
    for text in texts:
        body = json.dumps({"model": SMOLLM2, "input": text}).encode()
        asked = urllib.request.Request(f"{llama}/extras/tokenize", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(asked) as reply:
            assert json.load(reply)["tokens"] == tokenizer(text)["input_ids"], text

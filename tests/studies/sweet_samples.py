"""A study as the mini benchmark reports it, with invented numbers of the right size."""

import math
import random

METHODS = [  # name, title, explanation, examples, updates, success, tests passed, question habits
    (
        "warm_start",
        "Warm start",
        "Imitates noisy experts; every other method begins here.",
        2400,
        None,
        0.234,
        0.431,
        (1.10, 1.35, 0.31, 0.42, 0.23, 0.22, 0.17, 0.30),
    ),
    (
        "rejection",
        "Rejection fine-tuning",
        "Imitates the warm start's own dialogues that were solved.",
        562,
        48,
        0.525,
        0.640,
        (1.52, 1.05, 0.12, 0.20, 0.52, 0.16, 0.15, 0.12),
    ),
    (
        "trajectory_dpo",
        "Trajectory DPO",
        "Prefers a solved dialogue to a failed one of the same task, as a whole.",
        1180,
        37,
        0.514,
        0.633,
        (1.60, 0.88, 0.11, 0.16, 0.51, 0.15, 0.18, 0.14),
    ),
    (
        "sweet_rl",
        "SWEET-RL",
        "Prefers single turns that a critic with the hidden solution scores above others.",
        4000,
        101,
        0.569,
        0.702,
        (1.74, 0.62, 0.05, 0.07, 0.57, 0.08, 0.22, 0.13),
    ),
    (
        "sweet_rl_blind",
        "SWEET-RL, critic without solution",
        "The same, but the critic sees no more than the agent.",
        4000,
        101,
        0.476,
        0.611,
        (1.58, 0.93, 0.09, 0.12, 0.47, 0.14, 0.20, 0.17),
    ),
]
VERDICTS = [
    "useful question",
    "useless question",
    "repeated question",
    "needless question",
    "right answer",
    "early answer",
    "miscopied answer",
    "neither question nor answer",
]


def sample_study() -> dict:
    rng = random.Random(0)
    return {
        "title": "Mini benchmark: wasted questions",
        "subtitle": "Three seeds, 500 test tasks each, one model of 0.4 million weights trained from nothing",
        "settings": {
            "model": "Llama, width 128, 2 layers",
            "training tasks": 600,
            "rollouts per task": 4,
            "candidates per turn": 16,
            "pairs per turn": 4,
            "critic learning rate": 1e-4,
            "policy learning rate": 1e-4,
            "beta": 0.1,
            "nll": 1.0,
            "temperature": 1.0,
            "seeds": [0, 1, 2],
        },
        "machine": "2 CPU cores, 8 GB",
        "seconds": {
            "tasks and tokenizer": 2.1,
            "warm start": 96.4,
            "roll-outs": 31.0,
            "rejection fine-tuning": 22.5,
            "trajectory DPO": 27.9,
            "critic": 41.2,
            "sample and rank": 38.8,
            "SWEET-RL policy": 62.3,
            "evaluation": 74.0,
        },
        "notes": [
            "SWEET-RL makes more updates than its rivals, as published.",
            "Settings were chosen on other tasks than the test tasks.",
        ],
        "methods": [_method(rng, *row) for row in METHODS],
        "critics": [
            {
                "name": "sweet_rl",
                "title": "Critic with hidden solution",
                "auc_questions": 0.853,
                "auc_answering": 0.412,
                "turns_questions": 3120,
                "turns_answering": 840,
            },
            {
                "name": "sweet_rl_blind",
                "title": "Critic without",
                "auc_questions": 0.842,
                "auc_answering": 0.337,
                "turns_questions": 3120,
                "turns_answering": 840,
            },
        ],
        "curves": [
            _curve(rng, "critic", "Critic with hidden solution", 70, 0.05),
            _curve(rng, "sweet_rl", "SWEET-RL policy", 101, 0.025),
            _curve(rng, "trajectory_dpo", "Trajectory DPO", 37, 0.04),
        ],
        "dialogues": [_before(), _after()],
        "pages": _pages(),
    }


def _pages():
    """Two designers, two dialogues of different length, one of them in pictures."""
    white = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEAsVXdMwAAAABJRU5ErkJggg=="
    return {
        "tasks": 2,
        "metric": "combined",
        "designers": [
            {
                "name": name,
                "title": name,
                "explanation": f"What {name} does.",
                "metrics": {
                    "combined": {"mean": mean, "low": mean - 0.05, "high": mean + 0.05},
                    "ssim": {"mean": mean - 0.1, "low": None, "high": None},
                },
            }
            for name, mean in (("generic", 0.2), ("improver", 0.8))
        ],
        "floors": {"blank page": {"combined": 0.012}},
        "curves": [
            {"points": [{"turn": turn, "grade": grade} for turn, grade in curve]}
            for curve in ([(1, 0.2), (2, 0.6), (3, 0.9)], [(1, 0.1), (2, 0.7)])
        ],
        "strips": [
            {
                "request": "A page for a bakery.",
                "frames": [
                    {"label": "turn 1", "score": 0.2, "picture": white},
                    {"label": "target", "picture": white},
                ],
            }
        ],
    }


def _method(rng, name, title, explanation, examples, updates, success, passed, verdicts):
    seeds = [{"seed": seed, "success": round(success + rng.uniform(-0.025, 0.025), 3)} for seed in range(3)]
    by_turns = []
    for turns, share, rate in zip(
        range(1, 7), (0.03, 0.11, 0.22, 0.29, 0.21, 0.14), (0.1, 0.5, 1.3, 1.3, 1.0, 0.5), strict=True
    ):
        episodes = round(1500 * share)
        by_turns.append(
            {
                "turns": turns,
                "episodes": episodes,
                "successes": min(episodes, round(episodes * rate * success)),
            }
        )
    return {
        "name": name, "title": title, "explanation": explanation, "examples": examples, "updates": updates, "episodes": 1500,
        "success": {"mean": success, "low": success - 0.026, "high": success + 0.025},
        "tests_passed": {"mean": passed, "low": passed - 0.02, "high": passed + 0.021},
        "seeds": seeds, "by_turns": by_turns, "verdicts": dict(zip(VERDICTS, verdicts, strict=True)),
    }  # fmt: skip


def _curve(rng, name, title, updates, speed):
    points = []
    for update in range(1, updates + 1):
        learned = 1 - math.exp(-speed * update)
        points.append(
            {
                "update": update,
                "loss": 0.693 - 0.3 * learned + rng.gauss(0, 0.03),
                "accuracy": min(1, 0.5 + 0.3 * learned + rng.gauss(0, 0.04)),
                "margin": 1.2 * learned + rng.gauss(0, 0.1),
            }
        )
    return {"name": name, "title": title, "points": points}


REQUEST = "Write run(x) for me. It takes a number and has two parts."
SOLUTION = "run(x, scale3, cap2)"


def _dialogue(title, method, reward, turns):
    keys = ("agent", "human", "verdict", "score", "candidates")
    return {
        "title": title,
        "method": method,
        "reward": reward,
        "request": REQUEST,
        "solution": SOLUTION,
        "turns": [dict(zip(keys, turn, strict=True)) for turn in turns],
    }


def _candidate(text, score, count, verdict):
    return {"text": text, "score": score, "count": count, "verdict": verdict}


def _before():
    return _dialogue("Before: warm start", "warm_start", 0.25, [
        ("Is there a tint?", "It has no tint. Go on.", "useless question", -0.41, [
            _candidate("Is there a scale?", 0.62, 3, "useful question"),
            _candidate("Is there a cap?", 0.48, 4, "useful question"),
            _candidate("Is there a tint?", -0.41, 5, "useless question"),
            _candidate("Is there a fold?", -0.44, 3, "useless question"),
            _candidate("I answer run(x, scale1, cap1).", -1.13, 1, "early answer"),
        ]),
        ("Is there a scale?", "It has scale3. Go on.", "useful question", 0.55, []),
        ("Is there a scale?", "It has scale3. Go on.", "repeated question", -0.83, []),
        ("I answer run(x, scale3, cap1).", None, "early answer", -0.97, []),
    ])  # fmt: skip


def _after():
    return _dialogue("After: SWEET-RL", "sweet_rl", 1.0, [
        ("Is there a scale?", "It has scale3. Go on.", "useful question", 0.62, []),
        ("Is there a cap?", "It has cap2. That is all.", "useful question", 0.71, [
            _candidate("Is there a cap?", 0.71, 9, "useful question"),
            _candidate("Is there a fold?", -0.22, 5, "useless question"),
            _candidate("Is there a scale?", -0.90, 1, "repeated question"),
            _candidate("I answer run(x, scale3, cap2).", -0.95, 1, "early answer"),
        ]),
        ("I answer run(x, scale3, cap2).", None, "right answer", 0.34, []),
    ])  # fmt: skip

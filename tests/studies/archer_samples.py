"""An online study as the demo reports it, with invented numbers of the right size."""

import random

ITERATIONS = 15


def sample_online_study() -> dict:
    rng = random.Random(0)
    return {
        "title": "Twenty Questions, ten words: learning online",
        "subtitle": "Three seeds, one tiny GPT-2 each, trained first on games of a scripted asker",
        "machine": "2 CPU cores, 8 GB",
        "settings": {"games an iteration": 64, "iterations": 15, "critic_lr": 1e-3, "seeds": [0, 1, 2]},
        "seconds": {
            "games of the teacher": 3.0,
            "models": 41.5,
            "archer": 140.2,
            "chai": 128.9,
            "filtered bc": 60.0,
        },
        "notes": ["Greedy games of CHAI are those of its start: its candidates are all alike."],
        "methods": [
            _method(rng, "ArCHer", "Critic of utterances, policy gradient on tokens.", (5.0, 4.1, 5.6), True),
            _method(
                rng, "Online CHAI", "The policy stands still; the critic chooses of 5.", (1.4, 2.5, 1.9), True
            ),
            _method(
                rng, "Online Filtered BC", "Imitates the best tenth of its games.", (0.4, -0.8, 1.3), False
            ),
        ],
        "dialogues": [
            _game("banana", "Start", -4),
            _game("banana", "ArCHer", -2),
            _game("piano", "Start", -20),
            _game("piano", "ArCHer", -3),
        ],
    }


STARTS = (-12.1, -11.0, -12.9)


def _method(rng, name, description, gains, has_critic):
    seeds = []
    for seed, (start, gain) in enumerate(zip(STARTS, gains, strict=True)):
        steps, curve = 0, []
        for iteration in range(ITERATIONS):
            learned = gain * max(0.0, (iteration - 2) / (ITERATIONS - 3)) ** 0.6
            mean = start + learned + rng.gauss(0, 0.45)
            curve.append([steps, mean])
            steps += round(64 * (1 - mean))
        seeds.append(
            {
                "seed": seed,
                "start": start,
                "end": start + gain,
                "start_success": 0.58 + 0.02 * seed,
                "end_success": 0.6 + gain / 15,
                "start_turns": 12.7,
                "end_turns": 12.9 - gain,
                "greedy_start": start + 1,
                "greedy_end": start + gain + 1.5,
                "curve": curve,
                "loss": [
                    [n + 1, 6.0 * 0.82**n + 1.5 + rng.random()] for n in range(ITERATIONS) if has_critic
                ],
            }
        )
    return {"name": name, "description": description, "seeds": seeds}


def _game(word, method, total):
    asked = [["Is it alive?", "No."], ["Is it made of metal?", "No."], ["Can you eat it?", "Yes."]] * 7
    turns = asked[:-total] + ([[f"Is it a {word}?", "Yes."]] if total > -20 else [])
    return {"title": word, "method": method, "return": total, "turns": turns}

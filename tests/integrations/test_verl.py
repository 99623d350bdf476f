"""Our worlds as verl's agent loop: its own worker plays them with a tiny model, token for token."""

import asyncio
import importlib.util
import json
from itertools import groupby

import pytest
import torch
from transformers import AutoModelForCausalLM

import sweet_rl
from sweet_rl.chat.formats import EMBEDDED, model_path
from sweet_rl.errors import EpisodeError
from sweet_rl.integrations.worlds import choice_of, verl_rows
from sweet_rl.policies.scripted import TeacherPolicy

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("verl") is None, reason="needs the extra `verl`"),
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore"),  # of what verl still does, when it is imported, too
]
PATH = str(model_path(EMBEDDED))


class Server:
    """In place of verl's servers, which need GPUs: the embedded agent, sampled in this process."""

    def __init__(self, end):
        self.model, self.end = AutoModelForCausalLM.from_pretrained(PATH), end
        self.random = torch.Generator().manual_seed(0)
        self.said = {}

    @torch.no_grad()
    async def generate(self, request_id, *, prompt_ids, sampling_params, **others):
        from verl.workers.rollout.replica import TokenOutput

        ids, known = list(prompt_ids), []
        while len(known) < sampling_params["max_tokens"] and (not known or ids[-1] != self.end):
            logps = self.model(torch.tensor([ids])).logits[0, -1].float().log_softmax(-1)
            ids.append(int(torch.multinomial(logps.exp(), 1, generator=self.random)))
            known.append(float(logps[ids[-1]]))
        said = ids[len(prompt_ids) :]
        self.said.setdefault(request_id, []).append((list(prompt_ids), said, known))
        steps = {"min_global_steps": 1, "max_global_steps": len(self.said)}
        return TokenOutput(token_ids=said, log_probs=known, extra_fields=steps)


def play(tmp_path, choice, *, response_length=448, **loop):
    """What verl's worker makes of a world's rows as its own data set reads them, and the server."""
    from hydra import compose, initialize_config_module
    from omegaconf import OmegaConf
    from verl import DataProto
    from verl.experimental.agent_loop.agent_loop import AgentLoopWorker
    from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn

    ours = {"name": "sweet_rl", "_target_": "sweet_rl.integrations.verl.WorldLoop"}
    OmegaConf.save(OmegaConf.create([{**ours, "choice": choice, **loop}]), tmp_path / "loops.yaml")
    (tmp_path / "rows.json").write_text(json.dumps(verl_rows(choice_of(choice))))
    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("ppo_trainer", overrides=[
            f"actor_rollout_ref.model.path={PATH}", "actor_rollout_ref.rollout.name=vllm",
            "actor_rollout_ref.rollout.prompt_length=512", f"actor_rollout_ref.rollout.response_length={response_length}",
            "actor_rollout_ref.rollout.calculate_log_probs=True",
            f"actor_rollout_ref.rollout.agent.agent_loop_config_path={tmp_path / 'loops.yaml'}",
            f"+data.cache_dir={tmp_path}", "data.max_prompt_length=512",
        ])  # fmt: skip
    worker = AgentLoopWorker(config, llm_client=None)
    worker.llm_client = server = Server(worker.tokenizer.eos_token_id)
    data = RLHFDataset(str(tmp_path / "rows.json"), worker.tokenizer, config.data)
    batch = DataProto.from_single_dict(collate_fn([data[place] for place in range(len(data))]))
    return asyncio.run(worker.generate_sequences(batch)), server, worker.tokenizer


def samples(output):
    """Each sample's prompt, response, mask and log-probabilities without padding."""
    width = output.batch["prompts"].shape[1]
    for place, row in enumerate(output.batch):
        seen = row["attention_mask"].bool()
        prompt, ids = row["prompts"][seen[:width]].tolist(), row["responses"][seen[width:]].tolist()
        mask, logprobs = (row[name][: len(ids)].tolist() for name in ("response_mask", "rollout_log_probs"))
        yield place, prompt, ids, mask, logprobs


def test_a_batch_has_the_tokens_that_were_sampled_and_what_our_own_loop_gives_for_them(tmp_path):
    choice = {"world": "code", "tasks": "mini:test", "num_tasks": 6, "options": {"max_turns": 4}}
    output, server, tokenizer = play(tmp_path, choice)
    by_whole = {tuple(calls[-1][0] + calls[-1][1]): calls for calls in server.said.values()}
    spoken = []
    for place, prompt, ids, mask, logprobs in samples(output):
        calls = by_whole[tuple(prompt + ids)]
        for given, said, known in calls:  # each was asked behind the very tokens that are in the batch
            start = len(given) - len(prompt)
            assert given == prompt + ids[:start]
            assert ids[start : start + len(said)] == said
            assert mask[start : start + len(said)] == [1] * len(said)
            assert logprobs[start : start + len(said)] == pytest.approx(known)
        assert sum(mask) == sum(len(said) for _, said, _ in calls)
        assert [known for known, own in zip(logprobs, mask, strict=True) if not own] == [0.0] * mask.count(0)
        with torch.no_grad():  # a trainer's pass over the whole gives the sampler's numbers
            logps = server.model(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
        again = logps.gather(1, torch.tensor(ids)[:, None])[:, 0]
        own = torch.tensor(mask).bool()
        assert torch.allclose(again[own], torch.tensor(logprobs)[own], atol=1e-4)
        spoken.append([tokenizer.decode(said, skip_special_tokens=True) for _, said, _ in calls])
        assert output.non_tensor_batch["turn_scores"][place][:-1] == [0.0] * (len(calls) - 1)
    assert max(len(turns) for turns in spoken) > 1
    assert (output.non_tensor_batch["max_global_steps"] >= output.non_tensor_batch["min_global_steps"]).all()

    tasks = sweet_rl.load_tasks("mini:test", num_tasks=6)
    by_task = {task.task_id: turns for task, turns in zip(tasks, spoken, strict=True)}
    again = TeacherPolicy(lambda seen: by_task[seen.task_id][seen.turn])
    ours = sweet_rl.grade(sweet_rl.simulate("code", tasks, agent=again, options={"max_turns": 4}))
    theirs = output.batch["rm_scores"].sum(1).tolist()
    assert theirs == pytest.approx([episode.reward for episode in ours])
    assert [sum(one) for one in output.non_tensor_batch["turn_scores"]] == pytest.approx(theirs)
    assert list(output.non_tensor_batch["stop_reason"]) == [str(episode.stop_reason) for episode in ours]


def test_turns_that_are_cut_are_closed_and_rewarded_one_by_one(tmp_path):
    choice = {"world": "twenty_questions", "num_tasks": 1, "options": {"max_turns": 3}}
    output, server, tokenizer = play(tmp_path, choice, turn_tokens=1)
    ((_, _, ids, mask, _),) = samples(output)
    (calls,) = server.said.values()
    groups = groupby(range(len(mask)), key=mask.__getitem__)
    parts = [[ids[place] for place in places] for own, places in groups if own]
    assert parts == [said for _, said, _ in calls]
    assert [len(part) for part in parts] == [1, 1, 1]
    assert all(tokenizer.decode(given).count(tokenizer.eos_token) >= 2 for given, _, _ in calls[1:])
    assert output.non_tensor_batch["turn_scores"][0] == [-1.0, -1.0, -1.0]
    assert output.batch["rm_scores"].sum() == -3
    assert output.non_tensor_batch["stop_reason"][0] == "turn_limit"


def test_a_response_that_is_full_ends_with_a_turn(tmp_path):
    choice = {"world": "twenty_questions", "num_tasks": 1}
    output, server, _ = play(tmp_path, choice, response_length=40, turn_tokens=8)
    ((_, _, ids, mask, _),) = samples(output)
    assert len(ids) <= 40 and mask[-1] == 1
    turns = len(next(iter(server.said.values())))
    assert len(output.non_tensor_batch["turn_scores"][0]) == turns > 1
    assert output.non_tensor_batch["stop_reason"][0] == "context_full"


def test_a_human_who_cannot_be_asked_ends_the_batch_after_some_tries(tmp_path):
    silent = "tests.integrations.agent:Silent"
    choice = {"world": "code", "tasks": "mini:test", "num_tasks": 1, "human": silent}
    with pytest.raises(EpisodeError, match="timeout"):
        play(tmp_path, choice, tries=2)

"""A critic's credit in traces: written, and read back by verifiers' own classes where its trainers look for it."""

import json
from statistics import fmean, stdev

import pytest

from sweet_rl.records import replace_rows
from tests.integrations.credit import episode, episodes, findings, hidden, shown
from tests.tiny_models import tiny_tokenizer

pytest.importorskip("verifiers.v1", reason="needs the extra `verifiers`")

from verifiers.v1.episode import GroupInfo, WireEpisode
from verifiers.v1.trace import WireTrace
from verifiers.v1.utils.trace_store import read_episodes, write_episode

from sweet_rl.errors import UsageError
from sweet_rl.integrations.tokens import centred, token_rows
from sweet_rl.integrations.verifiers import credit_run
from sweet_rl.types import AgentTurn


def trace(episode, **differs):
    """A dialogue as verifiers records one that was played with a renderer: each node has the tokens that it adds."""
    (row,) = token_rows(episode, tiny_tokenizer())
    header, nodes, at = 8, [], 0
    for place, message in enumerate(episode.dialogue_history):
        said = {"role": message.role, "content": message.content}
        node = {"message": said, "parent": place - 1 if place else None}
        if isinstance(message, AgentTurn):
            start = row.mask.index(1, at)
            scaffold, at = row.response_ids[at:start], start + len(message.token_ids)
            before = row.prompt_ids[-header:] if place == 1 else scaffold
            node |= {
                "sampled": True, "token_ids": [*before, *message.token_ids], "logprobs": list(message.logprobs),
                "mask": [False] * len(before) + [True] * len(message.token_ids),
            }  # fmt: skip
        elif not place:
            node |= {"token_ids": row.prompt_ids[:-header], "mask": [False] * (len(row.prompt_ids) - header)}
        nodes.append(node)
    data = {"id": episode.task.task_id}
    task = {"type": "T", "data": data, "key": episode.task.task_id}
    made = {"task": task, "agent": {"config": {}}, "ok": True}
    return WireTrace.model_validate(made | {"nodes": nodes} | differs)


def saved(folder, traces):
    """A run's file."""
    rows = [json.loads(one.model_dump_json(exclude_none=True)) for one in traces]
    lines = [json.dumps({"task": row["task"], "traces": [row], "ok": True}) for row in rows]
    folder.mkdir()
    (folder / "traces.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return folder


def solution(some):
    told = {one.task.task_id: one.task.ground_truth for one in some}
    return lambda trace: told[trace.task.data.id]


def credited(folder, output, critic, hidden):
    lines = (folder / "traces.jsonl").read_text().splitlines()
    assert credit_run(folder, output, critic, hidden) == len(lines)
    return [trace for episode in read_episodes(output, WireTrace) for trace in episode.traces]


@pytest.fixture
def read(critic, tmp_path):
    """Traces with credit, as verifiers reads them."""
    some = episodes()
    return credited(saved(tmp_path / "run", map(trace, some)), tmp_path / "out", critic, solution(some))


def dealt(folder, weights, change, broken):
    """Rows of a trainer's file: outcomes less their group's mean, over its deviation, on every sampled token; beside them a judge."""
    paid = [0.5, 0.0, 1.0], [0.0, 3.0, 0.25]
    means = [(own, fmean(own, weights), stdev(own)) for own in paid]
    values = [[(one - mean) / by] * (1 + at) for own, mean, by in means for at, one in enumerate(own)]
    change(values)
    some = [episode(task, repeat, turns=1 + repeat) for task in range(2) for repeat in range(3)]
    for said, score, own in zip(some, paid[0] + paid[1], values, strict=True):
        one = trace(said, rewards={"reward": {"score": score, "weight": 2.0}, "later": None})
        for node, value in zip([node for node in one.nodes if node.sampled], own, strict=True):
            node.advantages = None if value is None else [value] * sum(node.mask)
        broken(one.nodes)
        judge = trace(episode(7, 0), agent={"config": {}, "trainable": False})
        judge.nodes[1].advantages = [9.0]
        group = GroupInfo(id=f"step 3, {one.task.key}")
        write_episode(folder, WireEpisode(task=one.task, group=group, traces=[one, judge], ok=True))
    return [json.loads(line) for line in (folder / "traces.jsonl").read_text().splitlines()]


def again(values):
    pool = [value for own in values for value in own]
    values[:] = [[(value - fmean(pool)) / stdev(pool) for value in own] for own in values]


@pytest.mark.parametrize(("weights", "change", "broken", "words"), [
        (None, list, list, None),
        (None, lambda values: values[1].__setitem__(0, None), list, None),  # a turn without a score stays unassigned
        (None, lambda values: values[2].__setitem__(1, 0.0), list, "turn 3: it has no advantage (0)"),
        (None, lambda values: values.__setitem__(0, [0.8]), list, "does not fit the outcome 1,"),
        (None, again, list, "normalised twice: over the episodes of each group"),
        ((1, 2, 3), list, list, "counts turns, not episodes"),
        (None, list, lambda nodes: nodes[1].advantages.pop(), "Write one advantage for each token whose mask is true"),
        (None, list, lambda nodes: nodes[1].advantages.__setitem__(0, 0.0), "tokens have lost their advantage (0)"),
        (None, list, lambda nodes: nodes[0].mask.__setitem__(-1, True), "1 tokens are trained that belong to no turn"),
])  # fmt: skip
def test_advantages_that_a_trainer_dealt_are_checked(tmp_path, weights, change, broken, words):
    found = findings(dealt(tmp_path, weights, change, broken))
    assert words in found[0][1] if words else found == []


def test_every_sampled_token_has_the_credit_of_its_turn_and_passes_credit_check(read, critic, tmp_path):
    lines = (tmp_path / "out" / "traces.jsonl").read_text().splitlines()
    assert findings([json.loads(line) for line in lines]) == []
    some = episodes()
    values = critic.credit_many(hidden(some), [one.dialogue_history for one in some])
    wanted = centred(values, [one.task.task_id for one in some])
    for trace, own, less in zip(read, values, wanted, strict=True):
        assert trace.info["turn_credit"] == {"credit": pytest.approx(own, abs=1e-4)} | critic.facts
        sampled = [node for node in trace.nodes if node.sampled]
        for node, value in zip(sampled, less, strict=True):
            assert node.advantages == pytest.approx([value] * len(node.logprobs), abs=1e-4)
        assert [node.advantages for node in trace.nodes if not node.sampled] == [None] * 2
        (branch,) = trace.branches
        found = {turn for turn, own in zip(branch.advantages, branch.sampled_mask, strict=True) if own}
        assert sorted(found) == pytest.approx(sorted(less), abs=1e-4)
        others = zip(branch.advantages, branch.sampled_mask, strict=True)
        assert {one for one, own in others if not own} == {0.0}


def test_other_hidden_information_gives_other_credit(read, critic, tmp_path):
    """Broken on purpose: the solution of another task, and none."""
    some = episodes()
    told = solution(some)
    swapped = saved(tmp_path / "swapped", map(trace, some))
    other = credited(swapped, tmp_path / "a", critic, lambda one: told(one) + "0")
    none = credited(swapped, tmp_path / "b", critic, lambda one: None)
    first, second, third = (
        [node.advantages for one in each for node in one.nodes if node.sampled]
        for each in (read, other, none)
    )
    assert all(a != b != c != a for a, b, c in zip(first, second, third, strict=True))


def test_what_has_no_tokens_failed_or_has_no_score_stays_unassigned(critic, tmp_path):
    some = episodes(1, 2)
    plain = trace(some[0])
    for node in plain.nodes:
        node.token_ids, node.mask, node.logprobs = [], [], []
    failed = trace(some[0], ok=False)
    long = trace(some[1])
    long.nodes[-1].message.content = "no " * 600
    run = saved(tmp_path / "run", [plain, failed, long])
    traces = credited(run, tmp_path / "out", critic, lambda one: "7")
    assert [node.advantages for one in traces[:2] for node in one.nodes] == [None] * 8
    assert len(traces[0].info["turn_credit"]["credit"]) == 2
    assert "turn_credit" not in traces[1].info
    assert traces[2].info["turn_credit"]["credit"][1] is None
    assert traces[2].nodes[1].advantages is not None
    assert traces[2].nodes[3].advantages is None


def test_a_message_that_two_branches_share_is_credited_once(critic, tmp_path):
    one = trace(episodes(1, 1)[0])
    again = one.nodes[-1].model_copy(update={"parent": 2, "message": one.nodes[1].message})
    one.nodes.append(again)
    (found,) = credited(saved(tmp_path / "run", [one]), tmp_path / "out", critic, lambda _: "7")
    assert len(found.branches) == 2
    assert [len(set(node.advantages)) for node in found.nodes if node.sampled] == [1, 1, 1]


def test_what_the_page_shows_is_the_same(read, folder, tmp_path):
    some = episodes()
    replace_rows(tmp_path / "tasks.jsonl", [dict(one.task.row) for one in some[::2]])
    run = saved(tmp_path / "again", map(trace, some))
    names = [str(folder / name) for name in ("critic", "reference")]
    count = shown("traces.py")["credit"](run, tmp_path / "other", *names, str(tmp_path / "tasks.jsonl"))
    assert count == 4
    found = [one for episode in read_episodes(tmp_path / "other", WireTrace) for one in episode.traces]
    assert [node.advantages for one in found for node in one.nodes] == [
        node.advantages and pytest.approx(node.advantages, abs=2e-4) for one in read for node in one.nodes
    ]


def test_a_file_is_never_written_over(critic, tmp_path):
    folder = saved(tmp_path / "run", [trace(episodes(1, 1)[0])])
    before = (folder / "traces.jsonl").read_bytes()
    with pytest.raises(UsageError, match="is there already"):
        credit_run(folder, folder, critic, lambda one: None)
    assert (folder / "traces.jsonl").read_bytes() == before

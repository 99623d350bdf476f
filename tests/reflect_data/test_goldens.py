"""What the published data generation makes of the recorded inputs (goldens reflect_rl/data_and_cli.json)."""

import json
import random
import shutil

import pytest

from sweet_rl.worlds.auto_explore.data_tasks import (
    block_of,
    clean_tasks,
    extract_questions,
    filter_repositories,
    split_tasks,
)
from sweet_rl.worlds.auto_explore.data_texts import explore_texts
from sweet_rl.worlds.auto_explore.game import ExploreGame
from sweet_rl.worlds.auto_explore.repositories import Library, optimal_path
from tests.worlds.auto_explore.goldens import CharacterCounter


@pytest.fixture(scope="module")
def folder(shared):
    return shared / "goldens/reflect_rl"


@pytest.fixture(scope="module")
def golden(folder):
    return json.loads((folder / "data_and_cli.json").read_text())


@pytest.fixture
def repositories(folder):
    return folder / "fixtures/repos"


def listing(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def unfiltered(folder, golden, tmp_path):
    """The recorded input: the fixture and a few files that must go."""
    source = tmp_path / "in"
    shutil.copytree(folder / "fixtures/repos/shop", source / "shop")
    for name in golden["filter_repo"]["input"]:
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_bytes("é".encode("latin-1") * 20 if path.stem == "latin" else b"x = 1\n" * 10)
    assert listing(source) == golden["filter_repo"]["input"]
    return source


def test_filter_repo(golden, unfiltered, tmp_path):
    repositories, files, _ = filter_repositories(unfiltered, tmp_path / "out", compat="published")
    assert listing(tmp_path / "out") == golden["filter_repo"]["output"]
    assert (repositories, files) == (1, len(golden["filter_repo"]["output"]))


def test_filter_repo_keeps_prices_unless_strict(golden, unfiltered, tmp_path):
    filter_repositories(unfiltered, tmp_path / "out")
    more = {"shop/pricing.py", "shop/docs/pricing.txt"}
    assert set(listing(tmp_path / "out")) - set(golden["filter_repo"]["output"]) == more


def test_questions_of_a_reply(golden):
    recorded = golden["extract_QAs"]
    assert [list(pair) for pair in extract_questions(recorded["in"])] == recorded["out"]


def test_optimal_paths(golden):
    files = ["README.md", "src/core/tax.py", "my notes/todo list.txt"]
    assert [optimal_path(file) for file in files] == golden["optimal_path"]


def test_the_block_of_a_file(golden, repositories):
    recorded = golden["random_block_stub_tokens"]
    table = (repositories / "shop/stock.csv").read_text()
    published = block_of(table, random.Random(0), len, max_tokens=40, compat="published")
    assert published == recorded["stock.csv max40 seed0"]
    assert block_of(table, random.Random(0), len, max_tokens=40) == published.replace("\n\n", "\n")
    for name, key in {"docs/hours.md": "hours.md (32 chars <50)", "README.md": "README"}.items():
        text = (repositories / "shop" / name).read_text()
        assert block_of(text, random.Random(0), len, compat="published") == recorded[key] == ""


def test_filter_task(golden, repositories):
    recorded = golden["filter_task"]
    published, dropped = clean_tasks(recorded["input"], repositories, compat="published")
    assert published == recorded["output"]
    assert dropped == {
        "no question": 1,
        "no such file": 1,
        "twice": 1,
        "target cannot be opened": 1,
    }
    ours, _ = clean_tasks(recorded["input"], repositories)
    assert ours[:1] == recorded["output"]
    (noted,) = ours[1:]
    assert noted["optimal_path"] == ['cd "my notes"', 'cat "todo list.txt"', 'id "todo list.txt"']


def test_split_sizes(golden):
    recorded = golden["split"]
    tasks = [{"question": "q", "root": "r"} for _ in range(recorded["n"])]
    published = split_tasks(tasks, seed=0, compat="published")
    assert {name: len(part) for name, part in published.items()} == recorded["seed0_sizes"]
    exact = split_tasks(tasks, seed=0)
    assert {name: len(part) for name, part in exact.items()} == {"train": 700, "validate": 200, "test": 100}


def test_sft_texts_of_auto_explore(golden, repositories, tmp_path):
    recorded = golden["gen_sft_auto_explore"]
    library = Library(repositories)
    texts = explore_texts(
        recorded["input"],
        lambda steps: ExploreGame(library, max_turns=steps, tokens=CharacterCounter(), compat="published"),
    )
    texts.write(tmp_path)
    for name in recorded:
        if name.endswith(".jsonl"):
            written = (tmp_path / name).read_text()
            assert not written.endswith("\n")
            assert [json.loads(line) for line in written.split("\n")] == recorded[name], name
    assert len(texts.files) == 5
    assert texts.skipped == {
        "task without trajectory": 1,
        "trajectory with a command that is not on offer": 1,
    }

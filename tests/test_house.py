"""The house keeps its own rules: imports point down, the wheel is whole, no room is larger than budget.toml allows.

`make budget` runs this file as a command: it lowers the numbers of budget.toml to what there is, and never raises one.
"""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections import Counter, defaultdict
from functools import cache
from itertools import takewhile
from pathlib import Path
from statistics import mean

import pytest

from sweet_rl.worlds import names, world_of
from tests.conftest import ROOT

PACKAGE = ROOT / "sweet_rl"
BUDGET = ROOT / "budget.toml"
FIGURES = {  # how far a figure may be from its budget on the good side, and on the other; what to do beyond
    "lines": (100, 40, "take lines out of it, or move them to another room"),
    "files": (3, 1, "merge small files"),
    "words": (500, 60, "shorten a page"),
    "pages": (1, 0, "merge two pages"),
    "short_helpers": (10, 3, "inline helpers of at most six lines that are called once"),
    "single_importers": (5, 1, "merge a module into the only one that imports it"),
    "circles": (0, 0, "let one module of the new circle not import the others"),
    "mean_body": (0.2, 0.1, "inline short helpers: a function is one whole thought"),
}
LIBRARY = ("sweet_rl", "examples")  # how the folders begin that are one
in_git = pytest.mark.skipif(
    not (ROOT / ".git").exists(), reason="git says which files are part of the project"
)


def test_imports_point_down_only():
    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "0 broken" in done.stdout


def test_import_of_the_package_is_light():
    code = (
        "import sys, sweet_rl;"
        "print(sorted(m for m in sys.modules if m.startswith('sweet_rl')),"
        "[m for m in ('torch', 'transformers', 'aiohttp', 'numpy', 'gradio') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['sweet_rl', 'sweet_rl.types', 'sweet_rl.version'] []"


@pytest.mark.slow
def test_the_wheel_holds_the_whole_package(tmp_path):
    """Built without isolation, so that no network is needed, and from a copy, so that nothing is left behind."""
    source = tmp_path / "source"
    for package in ("sweet_rl", "sweet_rl_verifiers"):
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(source)],
        capture_output=True,
        check=True,
        timeout=100,
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        str(path.relative_to(ROOT))
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert wanted <= names
    assert {
        "sweet_rl_verifiers/__init__.py",
        "sweet_rl/py.typed",
        "sweet_rl/worlds/backend_programming/prompts/llm_agent_code_prompt.txt",
    } <= names
    assert {
        f"sweet_rl/configs/archer/{path.name}" for path in (ROOT / "configs/archer").glob("*.yaml")
    } <= names
    assert not [name for name in names if name.startswith(("tests/", "scripts/", "build/"))]


def test_scripts_stay_thin():
    for folder in ("scripts", "visualizers"):
        for path in (ROOT / folder).rglob("*.py"):
            assert len(path.read_text().splitlines()) < 100, path


def _anchors(page):
    """The anchors that a page's headings get: lower case, blanks as hyphens, punctuation dropped."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_what_docstrings_point_to_is_there():
    """`docs/published/archer.md#critic, #policy` in the package names headings of a page that readers have."""
    pointers, missing = 0, []
    for path in PACKAGE.rglob("*.py"):
        for page, anchors in re.findall(r"(docs/[\w/]+\.md)((?:,?\s*#[a-z-]+)*)", path.read_text("utf-8")):
            wanted = set(re.findall(r"#([a-z-]+)", anchors))
            pointers += len(wanted)
            there = _anchors(ROOT / page) if (ROOT / page).is_file() else None
            if there is None or wanted - there:
                missing.append((str(path.relative_to(ROOT)), page, sorted(wanted - (there or set()))))
    assert pointers > 100
    assert not missing


def test_nothing_points_to_a_document_that_readers_do_not_have():
    folders = ("sweet_rl", "benchmarks", "docs", "scripts", "tests")
    texts = [path for folder in folders for path in (ROOT / folder).rglob("*.*")]
    found = [
        (path.relative_to(ROOT).as_posix(), match[0])
        for path in texts
        if path.suffix in {".py", ".md", ".txt", ".toml", ".yaml", ".sh"}
        for match in re.finditer(r"\bspec (?:§|\d)|[(]spec\b|§[\d]", path.read_text("utf-8"))
    ]
    assert not found


@cache
def sources():
    """The text of every file of the project that has a budget, committed or not, by path."""
    command = "git ls-files -z --cached --others --exclude-standard */*.py docs/*.md README.md".split()
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return {path: (ROOT / path).read_text("utf-8") for path in map(Path, found) if (ROOT / path).is_file()}


@cache
def modules():
    """The syntax tree of every module of the library, by name."""
    ours = {
        path: text
        for path, text in sources().items()
        if path.suffix == ".py" and path.parts[0].startswith(LIBRARY)
    }
    return {
        ".".join(path.with_suffix("").parts).removesuffix(".__init__"): ast.parse(text)
        for path, text in ours.items()
    }


@cache
def imports():
    """The modules of the library that each one imports when it runs, not for a type checker alone."""
    graph, trees = {}, modules()
    for module, tree in trees.items():
        named, nodes = set(), set(ast.walk(tree))
        for node in list(nodes):
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                nodes.difference_update(ast.walk(node))
        for node in nodes:
            if isinstance(node, ast.Import):
                named.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                inner = [f"{node.module}.{alias.name}" for alias in node.names]
                named.update(name if name in trees else node.module for name in inner)
        graph[module] = (named & trees.keys()) - {module}
    return graph


def circles(graph):
    """Groups of modules that import each other."""
    reached = {}
    for module in graph:
        reached[module], waiting = set(), [module]
        while waiting:
            new = graph[waiting.pop()] - reached[module]
            reached[module] |= new
            waiting += new
    return {frozenset(one for one in reached[module] if module in reached[one]) for module in graph} - {
        frozenset()
    }


def measured():
    """The figures of each room (a package of sweet_rl, a world, a folder beside sweet_rl), and of the library as a whole."""
    rooms, words, bodies, short_helpers = defaultdict(Counter), Counter(), [], 0
    for path, text in sources().items():
        folders = path.parts[:-1] or ("docs",)  # README.md
        depth = 1 if folders[0] != "sweet_rl" else 3 if folders[1:2] == ("worlds",) else 2
        python = {"lines": text.count("\n"), "files": 1}
        page = {"words": len(text.split()), "pages": 1}
        rooms["/".join(folders[:depth])].update(python if path.suffix == ".py" else page)
        if path.suffix == ".py" and folders[0].startswith(LIBRARY):
            words.update(re.findall(r"\w+", text))
    ours = [figures for room, figures in rooms.items() if room.startswith(LIBRARY)]
    for node in (node for tree in modules().values() for node in ast.walk(tree)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            bodies.append(node.end_lineno - body[0].lineno + 1 if body else 0)
            once = words[node.name] == 2 and not node.name.startswith("__") and not node.decorator_list
            short_helpers += once and bodies[-1] <= 6
    importers = Counter(target for targets in imports().values() for target in targets)
    library = {
        "lines": sum(figures["lines"] for figures in ours),
        "files": sum(figures["files"] for figures in ours),
        "short_helpers": short_helpers,
        "single_importers": sum(number == 1 for number in importers.values()),
        "circles": len(circles(imports())),
        "mean_body": round(mean(bodies), 1),
    }
    return {"library": library, **dict(sorted(rooms.items()))}


def line(room, figures):
    """What budget.toml says of a room."""
    return f'"{room}" = {{ {", ".join(f"{name} = {figures[name]}" for name in FIGURES if name in figures)} }}'


def above(budget, now):
    """What exceeds the budget, and how to repair it."""
    found = []
    for room, figures in now.items():
        if budget.get(room, {}).keys() != figures.keys():
            found.append(f"{room}: write this line into budget.toml: {line(room, figures)}")
            continue
        for name, value in figures.items():
            limit, (_, free, advice) = budget[room][name], FIGURES[name]
            off = round((limit - value if name == "mean_body" else value - limit) - free, 1)
            if off > 0:
                found.append(f"{room}: {name} is {value}, budget {limit} ({free} off is free): {advice}")
    return found


def below(budget, now):
    """Budgets that are no longer needed: a ratchet only falls."""
    found = [
        f"{room}: there is no such room: remove its line from budget.toml"
        for room in budget.keys() - now.keys()
    ]
    for room in budget.keys() & now.keys():
        shared = budget[room].keys() & now[room].keys()
        if any(abs(now[room][name] - budget[room][name]) > FIGURES[name][0] for name in shared):
            found.append(f"{room}: its line is now {line(room, now[room])}")
    return sorted(found)


def lowered(text, now):
    """budget.toml with the numbers of now, none of them worse."""
    if exceeded := above(tomllib.loads(text), now):
        sys.exit("\n".join([*exceeded, "budget.toml was not changed: this command never raises a number."]))
    head, budget = takewhile(lambda one: not one.startswith('"'), text.splitlines()), tomllib.loads(text)
    best = {
        room: {
            name: (max if name == "mean_body" else min)(value, budget[room][name])
            for name, value in figures.items()
        }
        for room, figures in now.items()
    }
    return "\n".join([*head, *(line(room, figures) for room, figures in best.items()), ""])


@in_git
def test_every_room_keeps_its_budget():
    budget, now = tomllib.loads(BUDGET.read_text("utf-8")), measured()
    exceeded, spare = above(budget, now), below(budget, now)
    assert not exceeded, "\n".join(exceeded)
    assert not spare, "\n".join([*spare, "`make budget` writes all of this."])


def test_a_budget_only_falls():
    text = '# head\n\n"library" = { circles = 2, mean_body = 7.2 }\n"a" = { lines = 300, files = 5 }\n"b" = { lines = 9, files = 1 }\n'
    budget = tomllib.loads(text)
    assert above(budget, budget) == below(budget, budget) == []
    assert lowered(text, budget) == text

    now = {"library": {"circles": 3, "mean_body": 7.0}, "a": {"lines": 341, "files": 2}, "c": {"lines": 9, "files": 1}}  # fmt: skip
    found = above(budget, now)
    assert found[0].startswith("library: circles is 3, budget 2 (0 off is free): ")
    assert found[1].startswith("library: mean_body is 7.0, budget 7.2 (0.1 off is free): ")
    assert found[2].startswith("a: lines is 341, budget 300 (40 off is free): ")
    assert found[3:] == ['c: write this line into budget.toml: "c" = { lines = 9, files = 1 }']
    with pytest.raises(SystemExit, match="never raises"):
        lowered(text, now)

    now = {
        "library": {"circles": 1, "mean_body": 7.3},
        "a": {"lines": 340, "files": 2},
    }  # a small change owes nothing
    assert above(budget, now) == []
    assert below(budget, now) == [
        "b: there is no such room: remove its line from budget.toml",
        'library: its line is now "library" = { circles = 1, mean_body = 7.3 }',
    ]
    wanted = '# head\n\n"library" = { circles = 1, mean_body = 7.3 }\n"a" = { lines = 300, files = 2 }\n'
    assert lowered(text, now) == wanted
    now["a"]["lines"] = 199
    assert below(budget, now)[0] == 'a: its line is now "a" = { lines = 199, files = 2 }'


def test_a_file_has_at_most_500_lines():
    assert not [str(path) for path in PACKAGE.rglob("*.py") if path.read_text("utf-8").count("\n") > 500]


@in_git
def test_no_world_is_imported_outside_its_folder():
    """Studies apart, which are about worlds, and what is made for a world, which it knows by name only."""
    kinds = (type(world).__module__.split(".") for world in map(world_of, names()))
    worlds = {".".join(parts[:3]) for parts in kinds if parts[0] == "sweet_rl"}
    assert len(worlds) >= 10
    found = []
    for module, targets in imports().items():
        theirs = {".".join(target.split(".")[:3]) for target in targets} & worlds
        if not module.startswith(("sweet_rl.studies.", "sweet_rl.mini.")):
            found += [(module, world) for world in theirs if not f"{module}.".startswith(f"{world}.")]
    assert not found


if __name__ == "__main__":
    BUDGET.write_text(lowered(BUDGET.read_text("utf-8"), measured()), "utf-8")

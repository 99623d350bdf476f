"""The house keeps its own rules: imports point down, the wheel is whole, nothing of a workplace leaks in."""

import re
import shutil
import subprocess
import sys
import zipfile

from sweet_rl.worlds import names, world_of
from tests.conftest import ROOT

PACKAGE = ROOT / "sweet_rl"


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
    assert {f"sweet_rl/configs/archer/{path.name}" for path in (ROOT / "configs/archer").iterdir()} <= names
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


def test_no_world_is_named_outside_its_folder():
    """Studies apart: they are about worlds. A world's name is its class's, as people and modules write it."""
    ours = (type(world) for world in map(world_of, names()) if type(world).__module__.startswith("sweet_rl."))
    worlds = {kind.__module__.split(".")[2]: kind.__name__ for kind in ours}
    assert len(worlds) >= 10
    found = []
    for folder, name in worlds.items():
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", "[ _-]?", name)
        named = re.compile(rf"(?<![a-z]){words}(?![a-z])", re.IGNORECASE)
        for path in PACKAGE.rglob("*.py"):
            place = path.relative_to(PACKAGE).as_posix()
            text = re.sub(r"docs/[\w/.]+(?:,? ?#[a-z-]+)*", "", path.read_text("utf-8"))
            if not place.startswith((f"worlds/{folder}/", "studies/")):
                found += [(place, match[0]) for match in named.finditer(text)]
    assert not found

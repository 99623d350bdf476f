"""The documentation for those who come: it builds, nothing in it is fetched, and the errors it quotes exist."""

import ast
import os
import re
import sys
import tomllib

import pytest
import yaml

from tests.conftest import ROOT, ran

FETCHED = re.compile(r'<(?:script|link|img|iframe|source)[^>]*?\s(?:src|href)="(?:https?:)?//[^"]*"')
TROUBLES = (ROOT / "docs/get_started.md").read_text().split("\n## Troubleshooting\n")[1]
QUOTED = re.findall(r"^\| `([^|]+?)` \|", TROUBLES, re.MULTILINE)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = (sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder)
    done = ran(*command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    # fails for a broken link, a page outside the navigation, a module that is gone
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
@pytest.mark.xdist_group("site")
def test_the_site_has_every_page_and_fetches_nothing(site):
    wanted = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    pages = {path.relative_to(site): path.read_text() for path in site.rglob("*.html")}
    assert wanted <= set(pages)
    assert {str(name): FETCHED.findall(text) for name, text in pages.items() if FETCHED.search(text)} == {}


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.xdist_group("site")
def test_the_search_finds_pages_without_a_server(site, browser):
    from selenium.webdriver.support.ui import WebDriverWait

    browser.get_log("browser")
    browser.get((site / "published/archer.html").as_uri() + "?q=landlock")
    link = ("css selector", "a.md-search-result__link")
    found = WebDriverWait(browser, 60).until(lambda page: page.find_elements(*link))
    assert any("/grading.html" in link.get_attribute("href") for link in found)
    assert browser.get_log("browser") == []


@pytest.mark.slow
@pytest.mark.xdist_group("site")
def test_the_reference_says_what_the_docstrings_say(site):
    reference = (site / "reference.html").read_text()
    assert 'id="sweet_rl.contracts.Env.step"' in reference
    assert "Free what the episode holds. May be called at any time, more than once." in reference
    assert 'href="published/sweet_rl.html#' in reference  # pointers of docstrings lead somewhere


def test_every_extra_has_its_row_on_the_page_about_installing():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    page = (ROOT / "docs/get_started.md").read_text()
    lines = page.split("\n## Install\n")[1].split("\n## ")[0].splitlines()
    rows = [line.split("|")[1] for line in lines if line[:3] == "| `"]
    assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted(extras)


def literal(node):
    """A string of the code, values in it as "..."; None for anything else."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(literal(one) or "..." for one in values)
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return f"{literal(left) or '...'}{literal(right) or '...'}"
    return None


def squeezed(text):
    """One space between words, and one "..." where values stand side by side or before a full stop."""
    return re.sub(r"\.{3,}", "...", " ".join(text.split()))


@pytest.fixture(scope="module")
def messages():
    """Every string of the library, long enough to be a message."""
    found = set()
    for path in (ROOT / "sweet_rl").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            text = literal(node)
            if text and len(text) > 20:
                found.add(squeezed(text))
    return found


@pytest.mark.parametrize("quoted", QUOTED, ids=lambda text: text[:40])
def test_an_error_that_troubleshooting_quotes_is_one_of_ours(quoted, messages):
    wanted = squeezed(quoted).strip(". ")
    assert any(wanted in message for message in messages)


def test_troubleshooting_quotes_something():
    assert len(QUOTED) > 20


def test_the_citation_names_the_three_papers():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    papers = {one["identifiers"][0]["value"]: one["authors"] for one in cited["references"]}
    assert set(papers) == {"arXiv:2503.15478", "arXiv:2402.19446", "arXiv:2402.12621"}
    assert all(author["family-names"] for authors in papers.values() for author in authors)


def test_the_image_is_made_of_what_is_there():
    text = (ROOT / "Dockerfile").read_text()
    copied = [name for line in re.findall(r"^COPY (.+)$", text, re.MULTILINE) for name in line.split()[:-1]]
    assert copied
    assert [name for name in copied if not (ROOT / name).exists()] == []
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(re.search(r"^ARG EXTRAS=(.+)$", text, re.MULTILINE)[1].split(",")) <= set(extras)
    assert re.search(r"^torch==", (ROOT / "constraints.txt").read_text(), re.MULTILINE)

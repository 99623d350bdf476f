import sys
from importlib.metadata import EntryPoint

import pytest

from sweet_rl import plugins
from sweet_rl.errors import UsageError
from sweet_rl.plugins import Registry

THINGS = Registry("sweet_rl.test_things", "thing", {"path": "os:path", "digits": "string:digits"})


@pytest.fixture
def installed(monkeypatch):
    def offer(**places):
        entries = [EntryPoint(name, value, "sweet_rl.test_things") for name, value in places.items()]
        monkeypatch.setattr(plugins, "entry_points", lambda group: entries)
        plugins._installed.cache_clear()

    yield offer
    plugins._installed.cache_clear()


def test_ours_those_of_packages_and_what_names_itself(installed):
    installed(letters="string:ascii_letters", digits="string:hexdigits")
    assert THINGS.names() == ("path", "digits", "letters")
    assert THINGS.find("digits") == "0123456789"  # a package does not take a name of ours away
    assert THINGS.find("letters").startswith("abc")
    assert THINGS.find("os.path:curdir") == "."
    assert THINGS.find("datetime:datetime.min").year == 1


def test_a_name_for_nothing_lists_what_there_is():
    with pytest.raises(UsageError, match=r"no thing 'digit' \(did you mean digits\?\).*path,"):
        THINGS.find("digit")


@pytest.mark.parametrize(
    ("name", "why"), [("no_such_module:X", "no module"), ("string:nothing", "no attribute")]
)
def test_what_cannot_be_imported(name, why):
    with pytest.raises(UsageError, match=f"thing '{name}' cannot be imported.*{why}"):
        THINGS.find(name)


def test_two_packages_with_one_name(monkeypatch):
    entries = [
        EntryPoint("twice", place, "sweet_rl.test_things") for place in ("string:digits", "string:printable")
    ]
    monkeypatch.setattr(plugins, "entry_points", lambda group: entries)
    plugins._installed.cache_clear()
    with pytest.raises(UsageError, match="Two installed packages offer a thing 'twice'"):
        THINGS.find("twice")
    plugins._installed.cache_clear()


def test_a_file_in_the_current_folder_is_found(tmp_path, monkeypatch):
    """A console script and `python scripts/x.py` have other folders on the path than the one a person is in."""
    (tmp_path / "lying_here.py").write_text("THING = 3\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    assert THINGS.find("lying_here:THING") == 3

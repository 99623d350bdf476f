import pytest
from markupsafe import Markup

from sweet_rl.studies.report import charts
from sweet_rl.studies.sweet.settings import Study


@pytest.fixture
def study(tmp_path):
    return Study(tmp_path, agent="embedded", human="http://127.0.0.1:1/v1", train_tasks=4, test_tasks=2)


@pytest.fixture
def no_charts(monkeypatch):
    """They take a second a page, and most tests do not look at them."""
    monkeypatch.setattr(charts, "_svg", lambda draw, label, width, height: Markup())

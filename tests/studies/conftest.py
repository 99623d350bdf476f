import pytest

from sweet_rl.studies.sweet.settings import Study


@pytest.fixture
def study(tmp_path):
    return Study(tmp_path, agent="embedded", human="http://127.0.0.1:1/v1", train_tasks=4, test_tasks=2)

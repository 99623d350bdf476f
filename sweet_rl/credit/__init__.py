"""The credit recorder: what each turn of a dialogue was worth, measured by playing on, beside what methods believe.

`measured` plays on from before and after each turn; `compare` holds the scores of methods against that. Rows are keyed by
`task_id`, `sample_index`, `turn_index` and `turn_digest` (`sweet_rl.preferences.credit`).
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Room(
    ModuleType
):  # `sweet_rl.credit(episodes, critic)` is offered by the room's name: it is called, too
    @property
    def __wrapped__(self) -> Any:
        return import_module("sweet_rl.interface").credit

    def __call__(self, *given: Any, **named: Any) -> Any:
        return self.__wrapped__(*given, **named)


sys.modules[__name__].__class__ = _Room

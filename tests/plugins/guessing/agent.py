"""An agent that plays any world: it counts upwards, one number a turn."""

from sweet_rl.policies.scripted import ScriptedPolicy


class Counter(ScriptedPolicy):
    """Says 1, 2, 3, and so on; from its name on where that is a number.

    Args:
        wanted: what it was asked for: a name, the instructions, the world's options.
    """

    name = "counter"

    def __init__(self, wanted):
        super().__init__(wanted.system_prompt)
        self._first = int(wanted.name) if wanted.name.isdigit() else 1

    def _say(self, observation):
        return str(self._first + observation.turn)

"""Two tiny models, as tests of other stages have them."""

from tests.commands.conftest import models

__all__ = ["models"]

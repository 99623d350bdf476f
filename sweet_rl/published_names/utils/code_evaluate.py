"""`sweet_rl.utils.code_evaluate`: see `code_utils` (docs/export_and_credit.md)."""

from .code_utils import code_evaluate

__all__ = ["code_evaluate"]

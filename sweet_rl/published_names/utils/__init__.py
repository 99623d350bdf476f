"""`sweet_rl.utils`: forwarders to `sweet_rl.grading` and `sweet_rl.browsers` (docs/export_and_credit.md)."""

from .code_evaluate import code_evaluate

__all__ = ["code_evaluate"]

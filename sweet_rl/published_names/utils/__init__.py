"""`sweet_rl.utils`: forwarders to `sweet_rl.grading` and `sweet_rl.browsers` (docs/published_names.md)."""

from .code_evaluate import code_evaluate

__all__ = ["code_evaluate"]

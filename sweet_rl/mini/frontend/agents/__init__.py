"""Scripted designers of web pages: `sketch` begins, `edits` understands, `canvas` is the page."""

from sweet_rl.mini.frontend.agents.agents import (
    BlankDesigner,
    GenericDesigner,
    ImproverDesigner,
    TargetDesigner,
)

__all__ = ["BlankDesigner", "GenericDesigner", "ImproverDesigner", "TargetDesigner"]

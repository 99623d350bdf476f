"""The scripted human who looks at pages; `page_parser` sees, `match` pairs, `differences` and `words` say."""

from sweet_rl.worlds.frontend_design.human.human import ScriptedViewer

__all__ = ["ScriptedViewer"]

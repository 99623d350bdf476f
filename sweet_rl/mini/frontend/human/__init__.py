"""The scripted human who looks at pages; `page_parser` sees, `match` pairs, `differences` and `words` say."""

from sweet_rl.mini.frontend.human.human import ScriptedViewer

__all__ = ["ScriptedViewer"]

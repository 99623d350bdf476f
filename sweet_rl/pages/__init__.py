"""Pages: found in what an agent writes, rendered by a real browser, without network.

`types` has the nouns and the `Renderer` contract; worlds, users and graders know nothing else of browsers.
"""

from sweet_rl.pages.types import Box, Color, PageContext, RenderedPage, Renderer, RenderFailed, Viewport

__all__ = ["Box", "Color", "PageContext", "RenderFailed", "RenderedPage", "Renderer", "Viewport"]

"""Pages drawn by hand for the eye, and a browser that knows nothing but a scripted designer's canvas."""

import io

from PIL import Image, ImageDraw

from sweet_rl.browsers import Box, PageContext, RenderedPage
from sweet_rl.types import Message


def page(*boxes, height=400, width=800, background=(255, 255, 255), paint=()):
    """A page with boxes; letters are bars of their colour, `ink` of their box from its left edge."""
    image = Image.new("RGB", (width, height), background)
    draw = ImageDraw.Draw(image)
    everything = [Box("body", 0, 0, width, height, background=background), *boxes]
    for box in everything:
        rect = (box.x, box.y, box.x + box.width - 1, box.y + box.height - 1)
        if box.background is not None:
            draw.rectangle(rect, box.background)
    for box in everything:
        if box.text:
            middle = box.y + box.height / 2
            half = box.font_size * 0.35
            left = box.x + 5
            draw.rectangle((left, middle - half, left + 10 * len(box.text) - 1, middle + half), box.color)
    for rect, color in paint:
        draw.rectangle(rect, color)
    out = io.BytesIO()
    image.save(out, "PNG")
    return RenderedPage(out.getvalue(), width, height, tuple(everything))


def text(words, x, y, *, size=16.0, weight=400, color=(0, 0, 0), width=None, height=None, tag="p"):
    """A box with a text of one line."""
    return Box(
        tag, x, y, width or 300, height or 1.5 * size, words, color=color, font_size=size, font_weight=weight
    )


def area(x, y, width, height, color):
    return Box("div", x, y, width, height, background=color)


def context(target, draft, *turns):
    roles = ("assistant", "user")
    messages = [Message("user", "a page, please")]
    messages += [Message(roles[i % 2], turn) for i, turn in enumerate(turns)]
    return PageContext("a page, please", "<html>hidden source</html>", tuple(messages), target, draft)


def canvas_page(canvas):
    """What a browser would lay out of a scripted designer's page: boxes only, the picture tells nothing."""

    def rgb(code):
        return tuple(int(code[i : i + 2], 16) for i in (1, 3, 5))

    boxes = [Box("body", 0, 0, canvas.width, canvas.height, background=rgb(canvas.background))]
    for block in sorted(canvas.blocks, key=lambda block: -block.width * block.height):
        tag = {"picture": "img", "input field": "input"}.get(block.kind, "div")
        color = rgb(block.color) if tag == "div" else None
        boxes.append(Box(tag, block.x, block.y, block.width, block.height, background=color))
    for words in canvas.words:
        line = words.line_height if words.lines > 1 else 1.5 * words.size
        boxes.append(
            Box(
                "p",
                words.x,
                words.y,
                words.width,
                words.lines * line,
                words.text,
                color=rgb(words.color),
                font_size=words.size,
                font_weight=700 if words.bold else 400,
            )
        )
    return RenderedPage(b"", canvas.width, round(canvas.height), tuple(boxes))

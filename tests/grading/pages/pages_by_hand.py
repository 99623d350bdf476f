"""Pages drawn by hand, so that the metrics are tested without a browser."""

from dataclasses import replace

from PIL import Image, ImageDraw

from sweet_rl.browsers import Box, RenderedPage
from sweet_rl.grading.pages.metrics import PageView, scale

WHITE, GREEN, GREY, DARK = (255, 255, 255), (16, 185, 129), (243, 244, 246), (31, 41, 55)

SHOP = (
    Box("header", 0, 0, 1366, 96, background=GREEN),
    Box("h1", 32, 24, 400, 48, "Corner Shop", color=WHITE, font_size=36, parent=0),
    Box("a", 1100, 36, 60, 24, "Home", color=WHITE, parent=0),
    Box("a", 1180, 36, 80, 24, "Contact us", color=WHITE, parent=0),
    Box("main", 0, 96, 1366, 700),
    Box("img", 32, 128, 640, 360, background=(120, 90, 60), parent=4),
    Box(
        "p",
        704,
        128,
        620,
        72,
        "Fresh bread, fruit and vegetables from the farms around us, every day.",
        parent=4,
    ),
    Box("button", 704, 230, 160, 44, "Order now", color=WHITE, background=DARK, parent=4),
    Box("footer", 0, 796, 1366, 72, background=DARK),
    Box("p", 32, 820, 420, 24, "Open from eight to six.", color=WHITE, parent=8),
)


def draw(boxes, *, width=1366, height=868, paper=WHITE):
    """A picture of boxes: backgrounds as they are, texts as stripes whose pattern depends on the letters."""
    image = Image.new("RGB", (width, height), paper)
    pen = ImageDraw.Draw(image)
    for box in boxes:
        corner = box.x + box.width - 1, box.y + box.height - 1
        if box.background is not None:
            pen.rectangle((box.x, box.y, *corner), fill=box.background)
        for index, letter in enumerate(box.text):
            x = box.x + index * box.width / max(1, len(box.text))
            if letter != " " and x < width:
                top = box.y + box.height * (0.2 + (ord(letter) % 7) / 20)
                pen.rectangle((x, top, x + 4, box.y + box.height * 0.8), fill=box.color)
    return image


def page(boxes, **how):
    image = draw(boxes, **how)
    return PageView(scale(image), RenderedPage(b"", image.width, image.height, tuple(boxes)))


def moved(boxes, across=0.0, down=0.0):
    return tuple(replace(box, x=box.x + across, y=box.y + down) for box in boxes)

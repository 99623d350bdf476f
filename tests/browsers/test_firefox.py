"""The same contract in Firefox, where there is one."""

import pytest

from sweet_rl.browsers import RenderedPage
from tests.browsers.test_chromium import REACHING, SHOP, listener, pixels

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]


@pytest.fixture(scope="module")
def service(services):
    with services(browser="firefox") as opened:
        yield opened


def test_one_page_is_one_picture(service):
    page = service.render(SHOP)
    assert (page.width, page.height, page.problems) == (1366, 768, ())
    assert pixels(page).size == (1366, 768)
    assert [box.tag for box in page.boxes] == ["body", "h1", "img", "p", "b", "input", "button"]
    assert (page.boxes[1].text, page.boxes[1].background) == ("Shop", (239, 68, 68))
    assert pixels(page).getpixel((1300, int(page.boxes[1].y) + 5)) == (239, 68, 68)
    assert (page.boxes[2].width, page.boxes[2].height) == (300, 200)
    assert service.render_all([SHOP, "<p>beside", SHOP])[::2] == [page, page]


@pytest.mark.parametrize(
    ("html", "height"),
    [
        ("", 768),
        ("<html style='display:none'>gone", 768),
        ("<body style='height:1000000px'>high", 16_384),
        ("<div style='height:2000px;background:red'>half", 2016),
        ("<img src='file:///etc/passwd'><iframe src='file:///etc/passwd'></iframe>", 768),
        ("<meta http-equiv=refresh content='0;url=file:///etc/passwd'>here", 768),
        ("<script>for(;;);</script>never ran", 768),
    ],
)
def test_bad_pages_have_pictures(service, html, height):
    page = service.render(html)
    assert isinstance(page, RenderedPage)
    assert (page.width, page.height) == (1366, height)
    assert not [box for box in page.boxes if "root:" in box.text]


def test_nothing_reaches_the_network(service):
    with listener() as (host, seen):
        page = service.render(REACHING.replace("HOST", host))
        assert seen == []
        assert f"blocked http://{host}/img" in page.problems

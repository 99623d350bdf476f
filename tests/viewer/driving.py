"""The viewer in a real browser, as its user knows it."""

import contextlib

from sweet_rl.viewer.export import export
from sweet_rl.viewer.library import Library
from tests.viewer.samples import write_rows


class Viewer:
    """The page as its user knows it."""

    loads = 0

    def __init__(self, driver, address):
        self.driver, self.address = driver, address

    def open(self, fragment=""):
        """Load the page afresh; another query, because another fragment alone would not load it."""
        Viewer.loads += 1
        self.driver.get(f"{self.address}?{Viewer.loads}{fragment}")
        self.until("return document.querySelector('.detail-head, .nothing')")
        return self

    def go(self, fragment):
        """Another row of the page that is open."""
        self.script("location.hash = arguments[0]", fragment)
        self.wait_for(fragment)

    def script(self, body, *arguments):
        return self.driver.execute_script(body, *arguments)

    def until(self, body, *arguments):
        """Wait until the script gives something true."""
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.driver, 10, poll_frequency=0.02).until(lambda _: self.script(body, *arguments))

    def wait_for(self, fragment):
        """Until the row that the fragment names is shown."""
        shown = """
            const [fragment, task, repeat] = arguments;
            const holds = (selector, text) => document.querySelector(selector)?.textContent.includes(text);
            return location.hash.split("?")[0] === fragment && holds(".facts", task) && holds(".stepper", `Repeat ${repeat}`)"""
        self.until(shown, fragment, *fragment[1:].rsplit("/", 1))

    def wait_for_count(self, count):
        self.until("return document.getElementById('count').textContent === arguments[0]", count)

    def all(self, selector):
        return self.driver.find_elements("css selector", selector)

    def one(self, selector):
        (element,) = self.all(selector)
        return element

    def texts(self, selector, what="textContent"):
        """Texts as they stand in the document, shown or not; or something else of each element."""
        return self.script(
            f"return Array.from(document.querySelectorAll(arguments[0]), e => e.{what})", selector
        )

    def text(self, selector):
        (text,) = self.texts(selector)
        return text

    def classes(self, selector):
        return self.texts(selector, "className")

    def shown(self, selector):
        """Whether each of the elements can be seen."""
        return self.texts(selector, "checkVisibility()")

    def too_wide(self):
        """By how many pixels what is shown of a row is wider than its window."""
        return self.script(
            "const e = document.getElementById('detail'); return e.scrollWidth - e.clientWidth"
        )

    @contextlib.contextmanager
    def window(self, width, height):
        """In a window of this size."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        try:
            yield
        finally:
            self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    def click(self, selector):
        self.script("document.querySelector(arguments[0]).click()", selector)

    def press(self, *keys):
        """Key strokes as the browser gets them from a keyboard, whatever has the focus."""
        for key in keys:
            text = {"text": key} if len(key) == 1 else {}
            self.driver.execute_cdp_cmd("Input.dispatchKeyEvent", {"type": "keyDown", "key": key, **text})

    def search(self, text):
        """Type into the search box, all at once."""
        self.script("document.getElementById('search').select()")
        self.driver.execute_cdp_cmd("Input.insertText", {"text": text})

    def choose(self, selector, value):
        change = "const [box, value] = arguments; box.value = value; box.dispatchEvent(new Event('change'))"
        self.script(change, self.one(selector), value)

    def named(self):
        """That every control which can be seen has a name for those who cannot see it."""
        for one in self.all("button, input, select"):
            assert one.accessible_name or not one.is_displayed(), one.get_attribute("outerHTML")

    def requests(self):
        """Addresses that the page has asked for, in order; the page itself is not among them."""
        return self.script("return performance.getEntriesByType('resource').map((entry) => entry.name)")

    def complaints(self):
        """What stands in the browser's console since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    @property
    def count(self):
        return self.text("#count")


def page_of(browser, folder, rows):
    """The page that a file with these rows is exported to, open."""
    export(Library([write_rows(folder / "rows.jsonl", rows)]), folder / "rows.html")
    return Viewer(browser, (folder / "rows.html").as_uri()).open()

"""A hook of mkdocs: where a docstring names a page (docs/grading.md#attacks), the reference links to it."""

import re

PAGE = re.compile(r"docs/([\w/]+)\.md(#[\w-]+)?")


def on_page_content(html, page, **_):
    """The page's HTML with links; other pages than the reference link for themselves."""
    if page.url != "reference.html":
        return html
    return PAGE.sub(lambda found: f'<a href="{found[1]}.html{found[2] or ""}">{found[0]}</a>', html)

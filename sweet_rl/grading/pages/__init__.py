"""Pages to scores: how much the answer's picture and its elements agree with the target's.

`pictures` decodes and scales; `visual` compares pixels, `elements` what the browser says stands where;
`metrics` puts both together; `embedding` asks a CLIP model; `grader` does it for trajectories; `report` is
the table; `judge` compares two runs page by page. Definitions and blind spots: docs/frontend.md.
"""

from sweet_rl.errors import missing_package


def need_page_metrics() -> None:
    """Make sure that pages can be compared.

    Raises:
        UsageError: numpy or Pillow is missing.
    """
    try:
        import sweet_rl.grading.pages.metrics  # noqa: F401
    except ImportError as error:
        raise missing_package(error.name or "pillow", "pages", needed_for="Comparing pages") from error

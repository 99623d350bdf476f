"""Pages to scores: how much the answer's picture and its elements agree with the target's.

`pictures` decodes and scales; `visual` compares pixels, `elements` what the browser says stands where;
`metrics` puts both together; `embedding` asks a CLIP model; `grader` does it for trajectories; `report` is
the table; `judge` compares two runs page by page. Definitions and blind spots: docs/frontend.md.
"""

"""Module names of the published SWEET-RL package, for programs that import them (docs/export_and_credit.md).

The folders here are importable under the published names, `sweet_rl.environments`, `sweet_rl.utils` and
`sweet_rl.models`: `sweet_rl/__init__.py` adds this folder to the places where subpackages are looked for.
They forward to the library and hold nothing that it lacks; nothing in the library imports them. New programs
use `import sweet_rl`.
"""

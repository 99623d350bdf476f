"""Running untrusted code: each answer in a process of its own that can do nothing but compute.

`pool` is this side: warm workers, deadlines, results. `guest` is the other side.
"""

from sweet_rl.grading.sandbox.jobs import Job, Outcome, Program, TestValue
from sweet_rl.grading.sandbox.pool import Sandbox

__all__ = ["Job", "Outcome", "Program", "Sandbox", "TestValue"]

"""Running untrusted code: each answer in a process of its own that can do nothing but compute.

`pool` and `worker` are this side: warm workers, deadlines, results. `guest` is the other side.
"""

from sweet_rl.grading.sandbox.pool import Sandbox
from sweet_rl.grading.sandbox.worker import Job, Outcome, Program, TestValue

__all__ = ["Job", "Outcome", "Program", "Sandbox", "TestValue"]

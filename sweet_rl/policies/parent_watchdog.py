"""Runs a command, and ends it with all its children when the parent process is gone.

Run as a file, by path, as the leader of a new session: `parent_watchdog.py PARENT_PID COMMAND...`. A server
that has several processes on a GPU must not outlive a run that was killed, and a killed run cannot clean up:
so another process has to watch. Uses the standard library only and works on any POSIX system.
"""

import os
import signal
import subprocess
import sys

POLL_S = 0.5
GRACE_S = 10.0


def main(parent: int, command: list[str]) -> int:
    """Wait for the command, to which SIGTERM is passed on, or for the parent to disappear; the command's exit status."""
    child = subprocess.Popen(command)  # the command is our caller's own
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    while os.getppid() == parent:
        try:
            status = child.wait(timeout=POLL_S)
        except subprocess.TimeoutExpired:
            continue
        return status if status >= 0 else 128 - status
    child.terminate()
    try:
        child.wait(timeout=GRACE_S)
    finally:
        os.killpg(0, signal.SIGKILL)
    return 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))

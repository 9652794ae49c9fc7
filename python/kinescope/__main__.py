"""The command line of Kinescope: `python -m kinescope` and the script `kinescope`."""

from __future__ import annotations

import signal
import sys

from . import _kinescope


def main() -> int:
    """Runs the command line with the arguments of this process, and returns its exit code."""
    # The verbs handle Ctrl-C themselves.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _kinescope.run_command_line(["kinescope", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())

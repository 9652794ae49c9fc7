"""The words that start the command line of this package as a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path

# Runs exactly this package. The current folder is not searched: its `kinescope.py` or `numpy.py` is a file of the user.
_START = """
import sys
sys.path[:] = [folder for folder in sys.path if folder]
import importlib.util
spec = importlib.util.spec_from_file_location("kinescope", sys.argv.pop(1))
module = sys.modules["kinescope"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
from kinescope.__main__ import main
sys.exit(main())
"""


def program_words() -> list[str]:
    """Returns this interpreter with its first arguments. The arguments of the command line come after them.

    The list is empty in a program that embeds Python, because it has no interpreter to start.
    """
    if not sys.executable:
        return []
    words = [sys.executable]
    # A process that does not trust its environment starts no process that does.
    flags = sys.flags
    set_options = (("-I", flags.isolated), ("-E", flags.ignore_environment), ("-s", flags.no_user_site))
    words += [option for option, is_set in set_options if is_set]
    if sys.version_info >= (3, 11):
        # Before that version, the first line of the code does it.
        words.append("-P")
    return [*words, "-c", _START, str(Path(__file__).resolve().with_name("__init__.py"))]

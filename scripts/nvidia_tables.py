"""Where the tables of NVIDIA's names and layouts are, and how their scripts write or check them."""

import sys
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "assets/registers/nvidia"


def write_or_check(tables):
    """Writes each table to its file, or with --check compares them; then ends the program."""
    differs = False
    for file, text in tables.items():
        path = FOLDER / file
        if "--check" not in sys.argv:
            path.write_text(text)
            print(path)
        elif path.read_text() != text:
            print(f"{path} differs from NVIDIA's headers")
            differs = True
    sys.exit(differs)

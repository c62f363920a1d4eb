"""Scripts that run inside the walls, with the rights and limits of an agent: they read and write the files of its tool.

They import only the standard library. They come as text in the arguments: an agent cannot change them, and an account
that does not see the folder of Matins can run them.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def script(name: str) -> tuple[str, ...]:
    """The words that start a script of this package; its arguments follow."""
    text = Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8")
    # The interpreter itself, not the link to it in the environment of Matins, which another account may not see.
    return os.path.realpath(sys.executable), "-I", "-S", "-c", text

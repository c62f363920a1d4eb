"""Each promise of docs/security.md with the guard that keeps it, and the test that fails without that guard.

`make mutants` takes each guard out of a copy of the source, so that daemons, keepers and wardens lack it too, and runs
the test, which must fail. A text that is not found exactly once is an error: the table follows the code.
"""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    file: str
    """From src/matins."""
    text: str
    without: str
    """What stands in place of the text without the guard."""
    test: str
    """From tests: it passes with the guard and fails without it."""
    quick: bool = False
    """A part of `make test`: about two seconds."""


BENEATH, FOLDER = "texts/beneath.py", "texts/untrusted_folder.py"
FOLDERS = "texts/test_untrusted_folder.py::"

MUTANTS: dict[str, tuple[Mutant, ...]] = {
    "Matins follows no link that an agent made, and waits for no pipe of its.": (
        Mutant(
            BENEATH,
            "_BENEATH | _NO_LINKS | _NO_MAGIC_LINKS)",
            "_BENEATH)",
            f"{FOLDERS}test_no_link_is_followed_at_any_level",
            quick=True,
        ),
        Mutant(
            BENEATH,
            "os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY",
            "os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NOCTTY",
            f"{FOLDERS}test_a_pipe_is_not_waited_for",
        ),
    ),
    "What an agent writes costs the engine 4 MB at a time.": (
        Mutant(
            BENEATH,
            'b""\n    if status.st_size > limit or len(data) > limit:',
            "os.pread(file, status.st_size, 0)\n    if False:",
            f"{FOLDERS}test_a_large_file_costs_no_memory",
        ),
        Mutant(FOLDER, "if number >= MAX_ENTRIES:", "if False:", f"{FOLDERS}test_listing_ends", quick=True),
    ),
    "A `file:` secret outside the home never leads into it.": (
        Mutant(
            BENEATH,
            "            if here in forbidden:\n                return True\n",
            "",
            f"{FOLDERS}test_a_named_path_follows_links_but_not_into_a_forbidden_folder",
            quick=True,
        ),
    ),
}

"""A process that claims from a TASKS.yaml: a line with a run's key comes in, the id that it got goes out."""

import sys
from pathlib import Path

from matins.seeds.cortex.tasks import TasksFile


def main() -> None:
    source = TasksFile("tasks", Path(sys.argv[1]))
    _say("ready")
    for line in sys.stdin:
        item = source.claim(line.rstrip("\n"), 1_774_598_400_000)
        _say(item.id if item else "none")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

"""Calls a function with the prompt that comes by stdin; its last line on stdout says what came of it.

It is run by whichever Python an agent names, so it needs nothing but that.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import sys
import traceback
from pathlib import Path
from typing import Any

RETURNED = b'{"matins_function": "returned"'
RAISED = b'{"matins_function": "raised"'
MOST_BYTES = 200_000
"""Of the last line: it must be found in the end of an output of which only that is kept."""


def call(name: str, prompt: str) -> dict[str, Any]:
    try:
        function = _found(name)
    except BaseException as error:  # a module may raise anything while it is imported
        traceback.print_exc()
        return _raised(error, f"{name} cannot be imported: ")
    try:
        answer = function(prompt)
        return _returned(asyncio.run(answer) if inspect.iscoroutine(answer) else answer)
    except BaseException as error:  # and so may a function
        traceback.print_exc()
        return _raised(error)


def encoded(told: dict[str, Any]) -> bytes:
    line = json.dumps(told).encode()
    if len(line) <= MOST_BYTES:
        return line
    what = f"it returned {len(line):,} bytes as JSON, and may return {MOST_BYTES:,}: write the rest to a file"
    return json.dumps({"matins_function": "raised", "raised": what}).encode()


def _found(name: str) -> Any:
    module, _, attributes = name.partition(":")
    found: Any = importlib.import_module(module)
    for attribute in attributes.split("."):
        found = getattr(found, attribute)
    return found


def _returned(answer: Any) -> dict[str, Any]:
    if answer is None or isinstance(answer, str):
        return {"matins_function": "returned", "text": answer or ""}
    return {"matins_function": "returned", "text": json.dumps(answer, ensure_ascii=False), "value": answer}


def _raised(error: BaseException, before: str = "") -> dict[str, Any]:
    told: dict[str, Any] = {"matins_function": "raised", "raised": f"{before}{type(error).__name__}: {error}"[:2_000]}
    if type(error).__name__ == "RateLimited":  # by its name: this Python may not have ours
        resets_at = getattr(error, "resets_at", None)
        told["limit"] = {
            "provider": str(getattr(error, "provider", "unknown"))[:100],
            "reason": str(getattr(error, "reason", ""))[:500],
            "resets_at": None if resets_at is None else resets_at.timestamp(),
        }
    return told


def main(name: str) -> int:
    sys.path[0:1] = []  # the folder of this file; what the workdir has comes after what is installed
    sys.path.append(str(Path.cwd()))
    printed = sys.stdout
    told = encoded(call(name, sys.stdin.buffer.read().decode()))
    if not printed.closed:
        printed.flush()
    with open(1, "wb", closefd=False) as out:  # whatever the function has made of sys.stdout
        out.write(b"\n" + told + b"\n")
    return 0 if told.startswith(RETURNED) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

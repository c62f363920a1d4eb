"""The program that calls a Python agent.

Calls a function with the prompt from stdin. The last line on stdout is the result.

Any Python that an agent names runs this file, so it imports only the standard library.

Functions that are called in their own processes. Alone in this folder, so that no file shadows a module.
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
import traceback
from pathlib import Path
from typing import Any

RETURNED = b'{"matins_function": "returned"'
RAISED = b'{"matins_function": "raised"'
MAX_BYTES = 200_000
"""Maximum length of the last line: it must fit into the stored tail of the output."""


def call(name: str, prompt: str) -> dict[str, Any]:
    try:
        function = _find(name)
    except BaseException as error:  # a module may raise anything on import
        traceback.print_exc()
        return _failure(error, f"{name} cannot be imported: ")
    try:
        returned = function(prompt)
        if inspect.iscoroutine(returned):
            import asyncio  # the engine reads this module too, and functions are mostly not coroutines

            returned = asyncio.run(returned)
        return _success(returned)
    except BaseException as error:  # and so may a function
        traceback.print_exc()
        return _failure(error)


def encoded(result: dict[str, Any]) -> bytes:
    line = json.dumps(result).encode()
    if len(line) <= MAX_BYTES:
        return line
    what = f"the function returned {len(line):,} bytes as JSON, more than {MAX_BYTES:,}: write the rest to a file"
    return json.dumps({"matins_function": "raised", "raised": what}).encode()


def _find(name: str) -> Any:
    module, _, attributes = name.partition(":")
    found: Any = importlib.import_module(module)
    for attribute in attributes.split("."):
        found = getattr(found, attribute)
    return found


def _success(returned: Any) -> dict[str, Any]:
    if returned is None or isinstance(returned, str):
        return {"matins_function": "returned", "text": returned or ""}
    return {"matins_function": "returned", "text": json.dumps(returned, ensure_ascii=False), "value": returned}


def _failure(error: BaseException, before: str = "") -> dict[str, Any]:
    result: dict[str, Any] = {"matins_function": "raised", "raised": f"{before}{type(error).__name__}: {error}"[:2_000]}
    if type(error).__name__ == "RateLimited":  # by name: this Python may not have Matins installed
        resets_at = getattr(error, "resets_at", None)
        result["limit"] = {
            "provider": str(getattr(error, "provider", "unknown"))[:100],
            "reason": str(getattr(error, "reason", ""))[:500],
            "resets_at": None if resets_at is None else resets_at.timestamp(),
        }
    return result


def main(name: str) -> int:
    sys.path[0:1] = []  # the folder of this file; installed packages precede the workdir
    sys.path.append(str(Path.cwd()))
    printed = sys.stdout
    result = encoded(call(name, sys.stdin.buffer.read().decode()))
    if not printed.closed:
        printed.flush()
    with open(1, "wb", closefd=False) as out:  # sys.stdout may have been replaced by the function
        out.write(b"\n" + result + b"\n")
    return 0 if result.startswith(RETURNED) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

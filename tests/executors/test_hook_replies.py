"""What a hook says by its output and its end."""

from __future__ import annotations

import commanding
import pytest
from commanding import run

from matins.executors.commands import CommandResult, hook_reply

commands = commanding.commands

GOES_ON = """
true
echo fine
echo '{"cancel": false, "reason": "no"}'
echo '{}'
echo '{cancel: true}'
echo '[true]'
echo '{"cancel": true}'; echo but no
echo '{"cancel": "true"}'
yes '{"log": 1}' | head -n 5000
yes '{"log": 1}' | head -n 5000; echo '{}'
yes | head -n 90000
printf '{"a":%.0s' $(seq 1500)
"""

CANCELS = r"""
maintenance ← echo '{"cancel": true, "reason": "maintenance"}'
maintenance ← echo looking; echo '{"cancel": true, "reason": "maintenance"}'; echo; echo ' '
maintenance ← printf '{\n "cancel": true,\n "reason": "maintenance"\n}\n'
maintenance ← echo '{"cancel": true, "reason": "maintenance"}'; exit 1
None ← echo '{"cancel": true}'
None ← echo '{"cancel": true, "reason": 7}'
a�b? ← printf %s '{"cancel": true, "reason": "a\u0000b\ud83d"}'
exit code 1 ← echo '{"cancel": true}'; exit 1
exit code 1 ← echo '{"cancel": false}'; exit 1
exit code 3 ← exit 3
exit code 3: last ← echo first >&2; echo last >&2; echo >&2; exit 3
ended by SIGKILL ← kill -9 $$
the output of the command is too long to be read ← printf '{"more": "%020000d", "cancel": true}' 0
the output of the command is too long to be read ← printf '{"a": "%010000d", "cancel": true, "b": "%010000d"}' 0 0
the output of the command is too long to be read ← echo well; printf '{"cancel": true, "more": "%020000d"}' 0
the output of the command is too long to be read ← printf '{\n"cancel": true,\n"more": "%020000d"\n}\n' 0
"""


@pytest.mark.parametrize("command", GOES_ON.strip().splitlines())
def test_p7_a_hook_that_ends_well_lets_the_run_go_on(command: str) -> None:
    assert hook_reply(run(command)) == (False, None)


@pytest.mark.parametrize("case", CANCELS.strip().splitlines())
def test_p7_a_hook_cancels_by_an_answer_or_by_its_end(case: str) -> None:
    reason, _, command = case.partition(" ← ")
    assert hook_reply(run(command)) == (True, None if reason == "None" else reason)


def test_p7_a_reason_is_short() -> None:
    assert hook_reply(run("""printf '{"cancel": true, "reason": "%01000d"}' 0""")).reason == "0" * 499 + "…"
    assert len(hook_reply(run("printf '%01000d' 0 >&2; exit 1")).reason or "") == 500


def test_p7_a_hook_that_is_cut_off_cancels() -> None:
    late = CommandResult(None, True, '{"cancel": false}', "", None, duration_ms=15_000)
    assert hook_reply(late) == (True, "the command did not end within 15 s")
    assert hook_reply(late._replace(duration_ms=1_500)) == (True, "the command did not end within 1.5 s")
    nameless = CommandResult(-35, False, "", "", None, duration_ms=3)
    assert hook_reply(nameless) == (True, "ended by signal 35")

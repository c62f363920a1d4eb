"""Short commands as real processes: what they are given, what they say, and how they are ended."""

from __future__ import annotations

import json
import os
import random
import select
import shlex
import shutil
import signal
import stat
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from matins.errors import InvalidInput
from matins.executors import commands
from matins.executors.commands import CommandResult, check_command, hook_said, run_command
from matins.runtime.clock import SystemClock

PATIENCE = 60
LIMIT_MS = 60_000


def run(command: str | Sequence[str], folder: Path | None = None, **given: Any) -> CommandResult:
    workdir = None if folder is None else str(folder)
    return run_command(command, **{"context": {}, "variables": {}, **given}, workdir=workdir, limit_ms=LIMIT_MS)


@pytest.fixture
def held(tmp_path: Path) -> Iterator[int]:
    """The reading end of a fifo: it shows when all who hold the other end are gone."""
    os.mkfifo(tmp_path / "held")
    reading = os.open(tmp_path / "held", os.O_RDONLY | os.O_NONBLOCK)
    yield reading
    os.close(reading)


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Callable[[int], int]]:
    """A fifo on which commands wait for a line; called, it lets so many of them go."""
    os.mkfifo(tmp_path / "gate")
    both = os.open(tmp_path / "gate", os.O_RDWR)
    yield lambda count: os.write(both, b"\n" * count)
    os.close(both)


def wait_until_gone(held: int) -> None:
    while select.select([held], [], [], PATIENCE)[0]:
        if not os.read(held, 4_096):
            return
    pytest.fail("somebody still holds it")


@pytest.fixture
def limit_strikes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A path: the limit is past from the moment when there is a file."""
    ready = tmp_path / "ready"
    clock = SystemClock()
    monkeypatch.setattr(commands, "_boot_ms", lambda: clock.boot_ms() + (LIMIT_MS if ready.exists() else 0))
    return ready


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., Path]:
    def write(text: str, mode: int = 0o755, name: str = "check.sh") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)
        return path

    return write


def test_c6_a_text_is_for_the_shell_and_its_exit_code_is_the_answer(tmp_path: Path) -> None:
    (tmp_path / "there").touch()
    assert run("test -f there && echo yes", folder=tmp_path)[:5] == (0, False, "yes\n", "", None)
    assert run("test -f absent || { echo no >&2; exit 3; }", folder=tmp_path)[:5] == (3, False, "", "no\n", None)
    assert run("kill -9 $$").exit_code == -signal.SIGKILL
    assert 0 <= run("true").took_ms < LIMIT_MS


def test_c6_it_gets_the_last_run_and_none_of_our_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """C6: PRECHECK_LAST_RUN is in its environment; a secret of ours is not."""
    monkeypatch.setenv("PLANTED_SECRET", "hush")
    monkeypatch.setenv("MATINS_TOKEN", "hush")
    monkeypatch.setenv("LC_TIME", "C")
    given = run("env", variables={"PRECHECK_LAST_RUN": "1774602000000", "MATINS_SCHEDULE": "nightly"}).output
    names = dict(line.split("=", 1) for line in given.splitlines())
    assert names["PRECHECK_LAST_RUN"] == "1774602000000"
    assert names["MATINS_SCHEDULE"] == "nightly"
    assert names["PATH"] == os.environ["PATH"]
    assert names["LC_TIME"] == "C"
    assert "hush" not in given
    allowed = {"PATH", "HOME", "LANG", "TZ", "TMPDIR", "USER", "SHELL", "PWD", "OLDPWD", "SHLVL", "_"}
    ours = {"PRECHECK_LAST_RUN", "MATINS_SCHEDULE"}
    assert {name for name in names if not name.startswith("LC_")} <= allowed | ours


def test_p7_the_context_arrives_whole_as_one_line_of_json(tmp_path: Path) -> None:
    context = {"schedule": "nightly", "payload": "ü\n" * 100_000}
    result = run("cat > given; head -c 1 | wc -c", context=context, folder=tmp_path)
    assert result.output.strip() == "0"
    given = (tmp_path / "given").read_text(encoding="utf-8")
    assert given.index("\n") == len(given) - 1
    assert json.loads(given) == context


def test_p7_a_hook_need_not_read_its_stdin() -> None:
    context = {"payload": "x" * 1_000_000}
    assert run("exec <&-; echo closed", context=context)[:4] == (0, False, "closed\n", "")
    assert run(["true"], context=context).exit_code == 0


def test_output_keeps_its_first_and_last_in_little_memory() -> None:
    """C6: whatever a preCheck prints, here 100 MB, a little is kept."""
    tracemalloc.start()
    try:
        result = run("echo begun; yes | head -c 104857600; echo ended; yes oh | head -c 100000 >&2; exit 4")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert result.exit_code == 4
    assert peak < 2_000_000
    assert result.output.startswith("begun\ny\n")
    assert result.output.endswith("y\nended\n")
    assert "…[104,849,484 bytes left out]…" in result.output
    assert 8_000 < len(result.output) <= 8_192
    assert 4_000 < len(result.errors) <= 4_096


@pytest.mark.parametrize("size", [8_127, 8_128, 8_129])
def test_output_is_cut_only_when_it_is_too_long(size: int) -> None:
    output = run(f"yes | head -c {size}").output
    whole = ("y\n" * size)[:size]
    assert output == whole if size <= 8_128 else "[1 bytes left out]" in output


def test_what_is_no_utf_8_is_replaced() -> None:
    """C6: partial and wrong UTF-8, and NUL, which PostgreSQL cannot keep."""
    assert run(r"printf 'a\303\251b\303'; printf '\377\000z' >&2")[2:4] == ("aéb\ufffd", "\ufffd\ufffdz")
    assert len(run(r"yes $(printf '\377\377\377') | head -c 100000").output) <= 8_192


@pytest.mark.parametrize("shift", ["", "x", "xx", "xxx"])
def test_our_own_cut_goes_through_no_character(shift: str) -> None:
    output = run(f"printf '{shift}'; yes 🌅 | tr -d '\\n' | head -c 40000; printf '{shift}'").output
    assert set(output) <= set("x🌅…[,] bytes left out0123456789")
    assert output.count("🌅") > 2_000


def test_c6_at_the_limit_it_may_clean_up_and_end(limit_strikes: Path) -> None:
    text = f"trap 'echo cleaned; exit 0' TERM; echo begun; touch {limit_strikes}; sleep 300 & wait"
    assert run(text) == (None, True, "begun\ncleaned\n", "", None, LIMIT_MS)


def test_c6_it_may_clean_up_without_its_outputs(limit_strikes: Path, held: int, tmp_path: Path) -> None:
    text = f"trap 'echo cleaned >&3; exit' TERM; exec 3>held >&- 2>&-; touch {limit_strikes}; sleep 300 & wait"
    assert run(text, folder=tmp_path).timed_out
    assert os.read(held, 100) == b"cleaned\n"


def test_c6_its_children_may_clean_up_too(limit_strikes: Path, script: Callable[..., Path], tmp_path: Path) -> None:
    """The shell ends with the signal at once, which its child sees; the child still has its second."""
    os.mkfifo(tmp_path / "shell")
    clean_up = "cat <&6; yes | head -c 300000; echo cleaned; exit"
    child = script(f"trap '{clean_up}' TERM; touch {limit_strikes}; sleep 300 & wait")
    result = run(f"exec 5<>shell; /bin/sh {child} 6<shell 5<&-; true", folder=tmp_path)
    assert result.output.endswith("y\ncleaned\n")


@pytest.mark.parametrize("outputs", ["", ">/dev/null 2>&1"])
def test_c6_who_ignores_the_signal_is_killed_with_its_children(
    outputs: str, limit_strikes: Path, held: int, tmp_path: Path
) -> None:
    text = f"trap '' TERM; echo begun; exec 3>held {outputs}; sleep 300 & touch {limit_strikes}; wait; sleep 300"
    assert run(text, folder=tmp_path) == (None, True, "begun\n", "", None, LIMIT_MS)
    wait_until_gone(held)


@pytest.mark.parametrize("child", ["sleep 300", "sleep 300 >/dev/null 2>&1", "yes"])
def test_p7_a_child_left_behind_is_not_waited_for_and_goes(child: str, held: int, tmp_path: Path) -> None:
    result = run(f"echo begun; exec 3>held; {child} & exit 7", folder=tmp_path)
    assert result[:2] == (7, False)
    assert result.output.startswith("begun\n")
    assert result.took_ms < LIMIT_MS / 2
    wait_until_gone(held)


@pytest.mark.skipif(shutil.which("setsid") is None, reason="no setsid here")
def test_p7_a_child_in_a_session_of_its_own_is_not_waited_for(
    held: int, gate: Callable[[int], int], tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "escaped")
    text = "exec 3>held 4<gate; setsid sh -c 'echo >escaped; read _ <&4; yes' & read _ <escaped; echo done"
    assert run(text, folder=tmp_path)[:3] == (0, False, "done\n")
    gate(1)
    wait_until_gone(held)  # nobody reads what it prints now, so it ends


def test_p7_who_never_stops_printing_does_not_hold_us(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands._Streams, "drain", lambda streams, wait_ms: True)
    assert run("true").exit_code == 0


def test_who_cannot_be_signalled_is_left_and_reaped_later(
    limit_strikes: Path, gate: Callable[[int], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C6: a program that runs as another user does not hold us."""

    def refuse(group: int, number: int) -> None:
        raise PermissionError(group, number)

    monkeypatch.setattr(os, "killpg", refuse)
    result = run(f"echo $$; touch {limit_strikes}; read _ <gate", folder=tmp_path)
    assert (result.exit_code, result.timed_out) == (None, True)
    [reaper] = [thread for thread in threading.enumerate() if thread.name == f"matins-reap-{result.output.strip()}"]
    gate(1)
    reaper.join(PATIENCE)
    assert not reaper.is_alive()


def test_an_interrupt_takes_the_command_with_it(held: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P7: Ctrl-C in a terminal does not reach another session by itself."""

    def interrupted_once() -> int:
        if (tmp_path / "ready").exists():
            (tmp_path / "ready").unlink()
            raise KeyboardInterrupt
        return SystemClock().boot_ms()

    monkeypatch.setattr(commands, "_boot_ms", interrupted_once)
    with pytest.raises(KeyboardInterrupt):
        run("exec 3>held; touch ready; sleep 300", folder=tmp_path)
    wait_until_gone(held)


def test_twenty_run_at_once_each_with_its_own(held: int, gate: Callable[[int], int], tmp_path: Path) -> None:
    """C6, P7: nobody goes before all are there; each sees its own context and variables."""
    text = 'echo >held; read _ <gate; cat; echo "$MATINS_N" >&2; exit $MATINS_N'
    with ThreadPoolExecutor(20) as pool:
        ends = [
            pool.submit(run, text, folder=tmp_path, context={"n": n}, variables={"MATINS_N": str(n)}) for n in range(20)
        ]
        os.set_blocking(held, True)
        with (tmp_path / "held").open("wb"):  # one more writer, so that the end comes after all of them
            arrived = b"".join(os.read(held, 1) for _ in range(20))
        gate(len(arrived))
        results = [end.result(PATIENCE) for end in ends]
    assert [result[:4] for result in results] == [(n, False, f'{{"n":{n}}}\n', f"{n}\n") for n in range(20)]


def hostile_texts() -> Iterator[list[str]]:
    """Ten thousand that would make a file called canary, if a shell read them."""
    dice = random.Random(6)
    touch = ["touch canary", "touch${IFS}canary", ">canary", "$(>canary)", "`>canary`", "|tee canary"]
    around = [*";&|\n'\"\\)`}#- é\udcff", "$(", "&&", "||", "${x:-"]

    def some() -> str:
        return "".join(dice.choices(around, k=dice.randrange(5)))

    return ([some() + dice.choice(touch) + some() for _ in range(1_000)] for _ in range(10))


def test_arguments_never_meet_a_shell(tmp_path: Path) -> None:
    """C6, P7: ten thousand hostile arguments arrive as they are; no canary."""
    tell = "import os, sys; open('given', 'wb').write(b'\\0'.join(map(os.fsencode, sys.argv[1:])))"
    for batch in hostile_texts():
        assert run([sys.executable, "-ISc", tell, *batch], folder=tmp_path)[:2] == (0, False)
        assert (tmp_path / "given").read_bytes().split(b"\0") == [os.fsencode(text) for text in batch]
    assert [path.name for path in tmp_path.iterdir()] == ["given"]


def test_values_never_meet_a_shell(tmp_path: Path) -> None:
    """C6, P7: ten thousand hostile values, by environment and stdin beside a shell; no canary."""
    for batch in hostile_texts():
        variables = {f"MATINS_{n}": text for n, text in enumerate(batch)}
        context = {name: text.replace("\udcff", "ÿ") for name, text in variables.items()}
        text = 'cat >context; env -0 >given; : $MATINS_1 "$MATINS_2"'
        assert run(text, variables=variables, context=context, folder=tmp_path)[:2] == (0, False)
        given = dict(line.split(b"=", 1) for line in (tmp_path / "given").read_bytes().split(b"\0") if line)
        assert [given[name.encode()] for name in variables] == [os.fsencode(text) for text in batch]
        assert json.loads((tmp_path / "context").read_bytes()) == context
    assert {path.name for path in tmp_path.iterdir()} == {"given", "context"}


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["/no/such/program"], "No such file or directory: /no/such/program"),
        (["matins-no-such-program"], "No such file or directory: matins-no-such-program"),
        ("echo \0", "embedded null byte"),
        (["echo", "\ud800"], "surrogates not allowed"),
        (["echo", "x" * 5_000_000], "Argument list too long: echo"),
    ],
)
def test_what_cannot_be_started_says_why(command: str | list[str], why: str) -> None:
    result = run(command)
    assert (result.exit_code, result.timed_out, result.output) == (None, False, "")
    assert result.error is not None
    assert why in result.error
    assert hook_said(result) == (True, f"it could not be started: {result.error}")


@pytest.mark.parametrize("absent", ["/no/such/folder", "~nobody-of-this-name/x"])
def test_a_folder_that_is_not_there_is_why_it_cannot_start(absent: str) -> None:
    assert run("true", folder=Path(absent)).error == f"No such file or directory: {absent}"


def test_a_tilde_is_home_in_program_and_folder(script: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path = script("#!/bin/sh\npwd")
    monkeypatch.setenv("HOME", str(path.parent))
    assert run(["~/check.sh"], folder=Path("~")).output == f"{path.parent.resolve()}\n"


# -- what a hook says

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
it ended with exit code 1 ← echo '{"cancel": true}'; exit 1
it ended with exit code 1 ← echo '{"cancel": false}'; exit 1
it ended with exit code 3 ← exit 3
it ended with exit code 3: last ← echo first >&2; echo last >&2; echo >&2; exit 3
it was ended by SIGKILL ← kill -9 $$
its answer is too long to be read ← printf '{"more": "%020000d", "cancel": true}' 0
its answer is too long to be read ← printf '{"a": "%010000d", "cancel": true, "b": "%010000d"}' 0 0
its answer is too long to be read ← echo well; printf '{"cancel": true, "more": "%020000d"}' 0
its answer is too long to be read ← printf '{\n"cancel": true,\n"more": "%020000d"\n}\n' 0
"""


@pytest.mark.parametrize("command", GOES_ON.strip().splitlines())
def test_p7_a_hook_that_ends_well_lets_the_run_go_on(command: str) -> None:
    assert hook_said(run(command)) == (False, None)


@pytest.mark.parametrize("case", CANCELS.strip().splitlines())
def test_p7_a_hook_cancels_by_an_answer_or_by_its_end(case: str) -> None:
    reason, _, command = case.partition(" ← ")
    assert hook_said(run(command)) == (True, None if reason == "None" else reason)


def test_p7_a_reason_is_short() -> None:
    assert hook_said(run("""printf '{"cancel": true, "reason": "%01000d"}' 0""")).reason == "0" * 499 + "…"
    assert len(hook_said(run("printf '%01000d' 0 >&2; exit 1")).reason or "") == 500


def test_p7_a_hook_that_is_cut_off_cancels() -> None:
    late = CommandResult(None, True, '{"cancel": false}', "", None, took_ms=15_000)
    assert hook_said(late) == (True, "it did not end within 15 s")
    assert hook_said(late._replace(took_ms=1_500)) == (True, "it did not end within 1.5 s")
    nameless = CommandResult(-35, False, "", "", None, took_ms=3)
    assert hook_said(nameless) == (True, "it was ended by signal 35")


# -- at definition time


SHELL_TEXTS = r"""
test -f ~/.cortex/data/schedules.json
[ $(cat /proc/loadavg | cut -d' ' -f1 | cut -d. -f1) -lt 8 ]
  ls "python train.py" || true
/bin/sh -c true
A=1 no-such; true
(cd / && ls)
{ :; }
! false
. ./env
cd /
# why
f () { :; }; f
if true; then false; fi
for x in 1 2; do echo $x; done
case x in x) ;; esac
while false; do :; done
"""


@pytest.mark.parametrize("text", [*SHELL_TEXTS.strip("\n").splitlines(), "true " + "x" * 7_995])
def test_c6_a_text_that_a_shell_can_run_is_taken(text: str) -> None:
    assert check_command(text, "preCheck") == text


def test_p7_a_list_is_taken_as_a_tuple(script: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path = script("#!/bin/sh\n")
    monkeypatch.setenv("HOME", str(path.parent))
    assert check_command(["sh", "", "$(oops", "\n"], "hook") == ("sh", "", "$(oops", "\n")
    assert check_command((str(path), "x"), "hook") == (str(path), "x")
    assert check_command(["~/check.sh"], "hook") == ("~/check.sh",)
    assert check_command("~/check.sh now", "hook") == "~/check.sh now"
    assert check_command(["./check.sh"], "hook", workdir="~") == ("./check.sh",)
    assert run(["./check.sh"], folder=path.parent).exit_code == 0
    with pytest.raises(InvalidInput):
        check_command(["./check.sh"], "hook", workdir="/")


@pytest.mark.parametrize(
    ("command", "message", "hint"),
    [
        ("", "names no program", "test -f"),
        (" \n", "names no program", "test -f"),
        ([""], "names no program", "test -f"),
        ([], "must be a text for the shell, or a list", "test -f"),
        (None, "must be a text for the shell, or a list", "test -f"),
        ({"command": "true"}, "must be a text for the shell, or a list", "test -f"),
        (["test", 1], "must hold texts only", "/usr/bin/test"),
        ("true \0", "holds a NUL", "take it out"),
        (["true", "a\0b"], "holds a NUL", "take it out"),
        ("true \ud800", "half a character", "take it out"),
        ("true " + "x" * 7_996, "at most 8,000 characters, got 8,001", "script"),
        (["true", "x" * 7_997], "at most 8,000 characters, got 8,001", "script"),
        ("matins-no-such check", '"matins-no-such" is not on PATH', "full path"),
        (["matins-no-such"], '"matins-no-such" is not on PATH', "full path"),
        ("/no/such/program -x", "/no/such/program cannot be used: No such file", "full path"),
        (["/no/such/program"], "/no/such/program cannot be used: No such file", "full path"),
        (["./" + "x" * 300], "File name too long", "full path"),
        (["~nobody-of-this-name/x"], "No such file", "full path"),
        (["/tmp/"], "/tmp is a folder", "a program in it"),
        ("if true", "the shell cannot read it: ", "sh -n"),
        ("echo 'open", "the shell cannot read it: ", "sh -n"),
    ],
)
def test_bad_commands_are_refused_in_words(command: object, message: str, hint: str) -> None:
    """C6, P7: what is wrong, where, and how to mend it."""
    with pytest.raises(InvalidInput) as caught:
        check_command(command, "preCheck")
    error = caught.value
    assert error.message.startswith('"preCheck": ')
    assert message in error.message
    assert hint in (error.hint or "")
    assert error.field == "preCheck"
    assert (error.value is None) == (command is None)
    str(error.value).encode()  # it can be sent on


@pytest.mark.parametrize("as_text", [True, False])
def test_p7_a_hook_that_is_not_executable_says_how_to_mend_it(script: Callable[..., Path], as_text: bool) -> None:
    path = script("#!/bin/sh\n", mode=0o644, name="not yet.sh" if not as_text else "not-yet.sh")
    with pytest.raises(InvalidInput, match="may not be executed") as caught:
        check_command(str(path) if as_text else [str(path)], "hooks")
    assert caught.value.hint == f"chmod +x {shlex.quote(str(path))}"
    assert caught.value.value == str(path)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    check_command(str(path) if as_text else [str(path)], "hooks")


def test_the_shell_says_what_is_wrong_and_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C6: a text is only read at definition time."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match=r"[Ss]yntax error"):
        check_command("touch canary; if $(touch canary)", "preCheck")
    check_command("touch canary; : $(touch canary)", "preCheck")
    assert list(tmp_path.iterdir()) == []

"""Short commands as real processes: what they are given, and what they say."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import commanding
import pytest
from commanding import LIMIT_MS, PATIENCE, run

from matins.executors.commands import hook_reply

commands = commanding.commands
held = commanding.held
gate = commanding.gate
script = commanding.script


def test_c6_a_text_is_for_the_shell_and_its_exit_code_is_the_answer(tmp_path: Path) -> None:
    (tmp_path / "there").touch()
    assert run("test -f there && echo yes", folder=tmp_path)[:5] == (0, False, "yes\n", "", None)
    assert run("test -f absent || { echo no >&2; exit 3; }", folder=tmp_path)[:5] == (3, False, "", "no\n", None)
    assert run("kill -9 $$").exit_code == -signal.SIGKILL
    assert 0 <= run("true").duration_ms < LIMIT_MS


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
    allowed = {"PATH", "HOME", "LANG", "TZ", "TMPDIR", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "SHLVL", "_"}
    ours = {"PRECHECK_LAST_RUN", "MATINS_SCHEDULE", "MATINS_WARDEN"}
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
        ("echo \0", "argv contains a NUL character"),
        (["echo", "\ud800"], "surrogates not allowed"),
        (["echo", "x" * 5_000_000], "Argument list too long: "),
    ],
)
def test_what_cannot_be_started_says_why(command: str | list[str], why: str) -> None:
    result = run(command)
    assert (result.exit_code, result.timed_out, result.output) == (None, False, "")
    assert result.error is not None
    assert why in result.error
    assert hook_reply(result) == (True, f"the command could not be started: {result.error}")


@pytest.mark.parametrize("absent", ["/no/such/folder", "~nobody-of-this-name/x"])
def test_a_folder_that_is_not_there_is_why_it_cannot_start(absent: str) -> None:
    assert run("true", folder=Path(absent)).error == f"No such file or directory: {Path(absent).absolute()}"


def test_a_tilde_is_home_in_program_and_folder(script: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path = script("#!/bin/sh\npwd")
    monkeypatch.setenv("HOME", str(path.parent))
    assert run(["~/check.sh"], folder=Path("~")).output == f"{path.parent.resolve()}\n"


@pytest.mark.parametrize(("megabytes", "exit_code"), [(1, 0), (2_000, 1)])
def test_b16_a_command_may_have_a_limit_of_memory(megabytes: int, exit_code: int) -> None:
    """B16: what it takes far beyond it is refused; it is not touched here"""
    script = f"import mmap; mmap.mmap(-1, {megabytes} << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)"
    words = (sys.executable, "-I", "-S", "-c", script)
    assert run(words, memory_bytes=64 << 20).exit_code == exit_code
    assert run(words).exit_code == 0

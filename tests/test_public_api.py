"""What `import matins` offers, and nothing else."""

import ast
from pathlib import Path

import pytest

import matins

SOURCE = Path(matins.__file__).parent


def test_every_name_can_be_had() -> None:
    for name in matins.__all__:
        assert getattr(matins, name) is not None
    assert dir(matins) == sorted(matins.__all__)


def test_there_are_no_more_than_these_beside_the_errors() -> None:
    values = {name: getattr(matins, name) for name in matins.__all__}
    errors = {n for n, value in values.items() if isinstance(value, type) and issubclass(value, matins.MatinsError)}
    assert set(matins.__all__) - errors == {
        "Client", "DstChange", "JobContext", "Matins", "Run", "RunState", "Schedule", "Trigger", "__version__",
        "parse_trigger", "trigger_from_dict",
    }  # fmt: skip


def test_other_names_cannot() -> None:
    with pytest.raises(AttributeError, match="no attribute 'parse'"):
        matins.parse  # noqa: B018


def test_errors_have_stable_codes_of_their_own() -> None:
    errors = [getattr(matins, name) for name in matins.__all__ if isinstance(getattr(matins, name), type)]
    codes = [error.code for error in errors if issubclass(error, matins.MatinsError)]
    assert len(codes) == len(set(codes)) == 18


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_only_the_clock_reads_the_clock(path: Path) -> None:
    """`now` is an argument everywhere else."""
    calls = {"now", "utcnow", "today", "time", "time_ns", "monotonic", "perf_counter"}
    tree = ast.parse(path.read_text(encoding="utf-8"))
    reads = [
        f"{node.func.value.id}.{node.func.attr}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in calls
        if isinstance(node.func.value, ast.Name) and node.func.value.id in {"datetime", "date", "time"}
    ]
    deadlines_of_sockets = ("net", "client.py")  # no schedule depends on them
    alone = ("processes", "proc.py")  # for keeper and wardens, which go on when there is no engine to hand them a clock
    patience = ("work", "tasks_file.py")  # for a lock that another process holds
    reader = ("cli", "times.py")  # for "in 3h": how far from whoever reads
    caller = ("api", "runs.py")  # for `runs.wait`: how long its caller waits
    others = (deadlines_of_sockets, alone, patience, reader, caller)
    assert not reads or path.parts[-2:] in (("runtime", "clock.py"), *others)

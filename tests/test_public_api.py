"""What `import matins` offers, and nothing else."""

import pytest

import matins


def test_every_name_can_be_had() -> None:
    for name in matins.__all__:
        assert getattr(matins, name) is not None
    assert dir(matins) == sorted(matins.__all__)


def test_there_are_no_more_than_these_beside_the_errors() -> None:
    values = {name: getattr(matins, name) for name in matins.__all__}
    errors = {n for n, value in values.items() if isinstance(value, type) and issubclass(value, matins.MatinsError)}
    assert set(matins.__all__) - errors == {
        "AsyncClient", "Client", "DstChange", "JobContext", "Matins", "Run", "RunState", "Schedule", "Trigger",
        "__version__", "parse_trigger", "trigger_from_dict",
    }  # fmt: skip


def test_other_names_cannot() -> None:
    with pytest.raises(AttributeError, match="no attribute 'parse'"):
        matins.parse  # noqa: B018


def test_errors_have_stable_codes_of_their_own() -> None:
    errors = [getattr(matins, name) for name in matins.__all__ if isinstance(getattr(matins, name), type)]
    codes = [error.code for error in errors if issubclass(error, matins.MatinsError)]
    assert len(codes) == len(set(codes))

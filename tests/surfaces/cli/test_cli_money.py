"""Amounts are shown as money, wherever one is shown: never a bare number, and never $0.00 for what is not zero."""

from __future__ import annotations

import re
from typing import Any

from cli_user import User

from matins.testing import Sandbox

SPENT, LIMIT, MOST = "$0.0042", "$0.013", "$0.017"
"""So small that two digits would show nothing, and unlike every other number that is printed."""
_BARE = re.compile(r"(?<![$\d.])0?\.0(?:042|13|17)|\b(?:4,?200|13,?000|17,?000)\b")
PLACES: dict[tuple[str, ...], tuple[str, ...]] = {
    ("budgets",): (SPENT, LIMIT),
    ("budgets", "show", "daily"): (SPENT, LIMIT),
    ("list",): (),
    ("show", "pays"): (MOST,),
    ("status",): (),
    ("runs",): (),
    ("runs", "show", "1"): (SPENT,),
    ("runs", "show", "3"): (LIMIT,),
    ("why", "pays"): ("$0.0088", LIMIT, MOST),
    ("preview", "pays"): (SPENT,),
    ("approvals",): (),
    ("approvals", "show", "1"): (MOST,),
    ("agents", "show", "scout"): (MOST,),
    ("prices", "show", "house/small"): (SPENT, LIMIT),
    ("events",): (SPENT, LIMIT, MOST),
    ("incidents",): (),
    ("stats",): (),
    ("spend",): (SPENT,),
    ("doctor",): (),
}


def spent(user: User, bench: Sandbox) -> None:
    """One run that spent, one that is over budget, one that waits for an approval."""

    @bench.job("pay")
    def pay(run: Any) -> Any:
        run.spend(SPENT)
        return {"executed": True, "text": "Done", "money": {"micro_dollars": 4_200, "estimated": False}}

    user.types("agents", "set", "scout", "--runner", "demo", "--max-cost", MOST)
    user.types("prices", "set", "house/small", "--input", SPENT, "--output", LIMIT)
    user.types("budgets", "set", "daily", "--max-cost", "$1", "--period", "day")
    user.types("add", "every day at 6pm", "--job", "pay", "-n", "pays", "--agent", "scout", "--max-cost", MOST)
    user.types("run", "pays")
    bench.settle()
    user.types(
        "add", "every day at 9am", "--job", "pay", "-n", "asks", "--max-cost", MOST, "--approval", "owner_approve"
    )
    bench.run_until("2026-03-27T09:00:00Z")
    user.types("budgets", "set", "daily", "--max-cost", LIMIT, "--period", "day")
    user.types("run", "pays", code=6)


def test_b5_every_amount_is_money(user: User, bench: Sandbox) -> None:
    """B5, B10: in tables, sentences, forecasts and errors"""
    spent(user, bench)
    for words, amounts in PLACES.items():
        said = user.types(*words, code=None, columns=200).output
        assert _BARE.findall(said) == [], (words, said)
        assert words[0] == "budgets" or "$0.00 " not in f"{said} ", (words, said)
        assert [amount for amount in amounts if amount not in said] == [], (words, said)
    refused = user.complains("budgets", "set", "daily", "--max-cost", "0.013", "--period", "day")
    assert 'Write "$0.013".' in refused

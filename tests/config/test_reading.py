"""What the file says, and what is wrong with it: all at once, each with its place. Rows C7 and H12."""

from __future__ import annotations

import pytest
from config_steps import entries, interpreted, schedule, wrong
from hypothesis import given
from hypothesis import strategies as st

from matins.config.reader import read
from matins.model.trigger import Cron, Interval

PLAIN = "schedules:\n  s: {when: 5m, job: work}\n"


def test_h12_agents_and_schedules_from_a_file() -> None:
    """H12: agents with their schedules below them, in herdctl's spelling; names unique per agent"""
    found = entries("""
        agents:
          a:
            runner: demo
            schedules:
              check: {type: interval, interval: 5m, prompt: "Check for ready issues."}
              report: {type: cron, expression: "0 9 * * 1-5", prompt: Generate daily report.}
          b:
            runner: demo
            schedules:
              check: {type: interval, interval: 1h}
        """)
    assert [key for key in found if key[0] == "schedule"] == [
        ("schedule", "a/check"),
        ("schedule", "a/report"),
        ("schedule", "b/check"),
    ]
    assert found["schedule", "a/check"].meant.definition.trigger.when.every_ms == 300_000
    assert found["schedule", "a/report"].meant.definition.trigger.when == Cron("0 9 * * 1-5")
    assert found["schedule", "b/check"].meant.definition.prompt.startswith("Look whether there is anything")


def test_h12_agents_as_a_list() -> None:
    """H12"""
    found = entries("agents:\n  - {name: a, runner: demo}\n  - name: b\n    runner: demo\n")
    assert list(found) == [("agent", "a"), ("agent", "b")]


def test_c7_every_error_at_once_with_place_path_and_fix() -> None:
    """C7: an invalid file says line, column and fix, all of them in the order of the file"""
    assert wrong("""\
        agents:
          scout: {runner: demo}
        schedules:
          morning:
            when: every wekday at 9am
            agent: scuot
            prompt: Hi
            overlp: skip
            catch_up_limit: "3"
            grace: 5x
            quiet_hours: nigths
        quiet_hours:
          nights: {windows: ["22:00-07:00", "25:00-26:00"]}
        """) == [
        (
            'matins.yaml, line 5, column 11: schedules.morning.when: "wekday" cannot be used after "every": expected '
            '"second", "other", a number, "minute", "hour", a duration such as 5m, "day" or … '
            '(Did you mean "every weekday at 9am"?)'
        ),
        'matins.yaml, line 6, column 12: schedules.morning.agent: there is no agent "scuot". (Did you mean "scout"?)',
        'matins.yaml, line 8, column 5: schedules.morning: there is no "overlp". (Did you mean "overlap"?)',
        (
            "matins.yaml, line 9, column 21: schedules.morning.catch_up_limit: must be an integer from 1 to 1000, "
            "not '3'. (Remove the quotes.)"
        ),
        (
            "matins.yaml, line 10, column 12: schedules.morning.grace: \"grace\" must be a duration, not '5x': "
            'Invalid time unit "x". Valid units are: s, m, h, d. '
            "(Use a number and a unit, such as 90m, the largest unit first: 1h30m.)"
        ),
        (
            'matins.yaml, line 11, column 18: schedules.morning.quiet_hours: there is no quiet hours policy "nigths". '
            '(Did you mean "nights"?)'
        ),
        (
            "matins.yaml, line 13, column 37: quiet_hours.nights.windows: '25:00' is not a time from 00:00 to 23:59. "
            '(Use HH:MM on the 24-hour clock, in quotes, as in "22:00-07:00".)'
        ),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("schedules:\n\ts: {}\n", "line 2, column 1: this is not YAML: found character '\\t'"),
        ("a: &x [1]\nb: *x\n", "line 2, column 4: *x repeats another part. (Write it out.)"),
        (
            "schedules: {s: {when: 5m, when: 6m, job: w}}",
            "schedules.s.when: is there twice, first on line 1. (Remove one of them.)",
        ),
        ("schedules: {s: {when: 5m, job: w, payload: {a: 1, a: 2}}}", "payload.a: is there twice"),
        ("- a\n", "line 1, column 1: must be a mapping."),
        ("shedules: {}\n", 'there is no "shedules". (Did you mean "schedules"?)'),
        ("schedules: 5\n", "line 1, column 12: schedules: must be a mapping."),
        ("schedules: {s: {when: [5m], job: w}}", "schedules.s.when: must be a string, not a list."),
        ("schedules: {s: {job: w}}", 'schedules.s: the schedule needs "when"'),
        (
            "schedules: {s: {when: 5m}}",
            'schedules.s: A schedule needs "prompt", "command", "job" or "steps". (For example: prompt: "Summarise',
        ),
        ("schedules: {s: {when: 5m, prompt: Hi}}", "the schedule has a prompt but no agent. (agent: NAME)"),
        ("schedules: {s: {when: 5m, job: w, strict: yes}}", "strict: must be true or false, not 'yes'."),
        ("schedules: {s: {when: 5m, job: w, overlap: quue}}", 'Did you mean "queue"?'),
        ("schedules: {s: {type: cron, interval: 5m, job: w}}", 'type cron needs "expression"'),
        ("schedules: {s: {interval: 5m, job: w}}", '"interval" needs "type"'),
        ("schedules: {s: {when: 5m, interval: 5m, job: w}}", '"when" and "interval" cannot be combined'),
        ("schedules: {s: {type: wbhook, job: w}}", 'Did you mean "webhook"?'),
        ("schedules: {s: {type: webhook, job: w}}", 'there is no inbound endpoint "s". (Define it under inbound.)'),
        ("schedules: {s: {type: chat, interval: 5m, job: w}}", 'type chat has no "interval"'),
        ("schedules: {s: {job: w}}", 'the schedule needs "when" or "on"'),
        ("schedules: {s: {job: w, on: {webhook: prs}}}", 'schedules.s.on: there is no inbound endpoint "prs".'),
        ("schedules: {s: {job: w, on: {schedule: t}}}", 'schedules.s.on: there is no schedule "t". (Known: s.)'),
        ("schedules: {s: {job: w, when: after t ends}}", 'schedules.s.when: there is no schedule "t".'),
        ("schedules: {s: {job: w, on: {webhok: prs}}}", 'schedules.s.on: "on" needs webhook, chat or schedule.'),
        ("schedules: {s: {when: 5m, job: w, pre_check: /no/such/program}}", "schedules.s.pre_check"),
        (
            "schedules: {s: {when: 5m, job: w, work_source: backlog}}",
            'there is no work source "backlog". (Define it under work_sources.)',
        ),
        ("agents: {a: {runner: clod}}", 'agents.a.runner: There is no runner "clod"'),
        ("agents: {a: {}}", 'agents.a: An agent needs "runner"'),
        (
            "agents: {a: {runner: demo, schedules: {s: {when: 5m, agent: b}}}}",
            '"agent" is "a" already: the schedule is listed below it. (Remove it.)',
        ),
        ("agents: {a: {runner: demo, max_concurrent: 2}}\nlimits: {agent:a: 3}", "is defined on line 2 too"),
        ("agents: [{runner: demo}]", "agents[0]: must have a name. (- name: scout)"),
        ("budgets: {b: {period: day, max_cost: €5}}", "budgets.b.max_cost"),
        ("budgets: {b: {period: day, max_cost: $5, scope: agent, of: nobody}}", 'there is no agent "nobody"'),
        ("budgets: {b: {period: day, max_cost: $5, scope: schedule, of: a/b}}", 'there is no schedule "a/b"'),
        (
            "webhooks: {w: {url: https://e.com, secret: whsec_abc}}",
            'must be a reference to the secret, not the secret itself. (For example: secret: "env:HOOK_SECRET".)',
        ),
        ("webhooks: {w: {url: https://e.com}}", 'webhooks.w: A webhook needs "secret" (Where the signing'),
        ("webhooks: {w: {url: http://127.0.0.1, secret: env:X}}", "webhooks.w"),
        ("hooks: {before:schedule:triger: x}", 'Did you mean "before:schedule:trigger"?'),
        ("limits: {global: 0}", "limits.global: must be an integer from 1 to 10000, not 0. (For example: 4.)"),
        ("limits: {everything: 3}", '"everything" is not the scope of a limit.'),
        ("rates: {euro: 1.1}", "'euro' is not a currency code"),
        ("preset: herdctrl\n", 'Did you mean "herdctl"?'),
        ("? [a]\n: b\n", "this has no name"),
        ("schedules: {s: {when: 5m, job: w, payload: {? [a] : b}}}", "schedules.s.payload: this has no name"),
        ("schedules: {s: {when: 5m, job: w, payload: [{~: b}]}}", "schedules.s.payload[0]: this has no name"),
        (
            'schedules: {s: {when: 5m, job: w, prompt: "\\uD800"}}',
            "schedules.s.prompt: this contains a NUL or half a character",
        ),
    ],
)
def test_h12_what_is_wrong_is_told_where_it_stands(text: str, said: str) -> None:
    """H12: with the offending value"""
    told = wrong(text)
    assert any(said in line for line in told), told
    assert all("line" in line and "column" in line for line in told)


def test_one_schedule_defined_in_two_places() -> None:
    """H12: names are unique per agent"""
    assert wrong("""\
        agents: {a: {runner: demo, schedules: {s: {when: 5m}}}}
        schedules:
          s: {when: 6m, agent: a}
        """) == [('matins.yaml, line 3, column 3: schedules.s: schedule "a/s" is defined on line 1 too. '
                 "(Remove one of them.)")]  # fmt: skip


def test_the_secret_itself_is_not_told_again() -> None:
    assert "whsec" not in str(wrong("webhooks: {w: {url: https://e.com, secret: whsec_abcdef}}"))


def test_bombs_are_refused_quickly() -> None:
    lines = ["a: &a [x]"] + [f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 9)}]" for n in range(9)]
    assert "repeats another part" in wrong("\n".join(lines))[0]
    assert "nested deeper" in wrong("[" * 200 + "]" * 200)[0]


def test_what_looks_like_a_number_or_a_time_is_what_the_setting_asks_for() -> None:
    """Texts stay as they are written; only where a number is asked for is it one."""
    found = entries("""
        agents: {a: {runner: demo, model: 4.10, environment: {PORT: 0755, ON: yes}}}
        quiet_hours: {n: {windows: 22:00-07:00}}
        schedules:
          2024: {when: 0 2 * * *, job: work, payload: {n: 010, t: true, d: 2026-01-01, x: 1.5}, max_tokens: 20}
        """)
    assert found["agent", "a"].meant.model == "4.10"
    assert found["agent", "a"].meant.environment == (("PORT", "0755"), ("ON", "yes"))
    definition = found["schedule", "/2024"].meant.definition
    assert definition.payload == {"n": 10, "t": True, "d": "2026-01-01", "x": 1.5}
    assert definition.max_tokens == 20


@pytest.mark.parametrize("number", [".nan", ".NaN", "-.inf", "+.Inf", ".INF", "1e999", "-1E999"])
def test_a_file_has_no_numbers_that_json_does_not_have(number: str) -> None:
    """S7: YAML has NaN and infinities, and no payload holds one. In quotes it is a text."""
    text = f"""\
        schedules:
          s:
            when: 5m
            job: work
            payload:
              fine: [1e3, .5, "{number}", .nano, inf, nan]
              limit: {{most: {number}}}
        """
    (problem,) = wrong(text)
    assert problem == (
        "matins.yaml, line 6, column 7: schedules.s.payload: "
        f"must be a JSON value, and JSON has no {number} (line 7). "
        f'(Use null, or quote it if it is a text: "{number}".)'
    )
    found = entries(text.replace(f"{{most: {number}}}", "null"))
    assert found["schedule", "/s"].meant.definition.payload["fine"] == [1000.0, 0.5, number, ".nano", "inf", "nan"]


def test_defaults_hold_where_a_schedule_does_not_set_it() -> None:
    """S6: per schedule, else the file's default, else UTC; quiet hours and budgets follow it"""
    found = entries("""
        defaults: {timezone: Europe/Berlin, retries: 3, payload: {a: 1}}
        schedules:
          s: {when: 5m, job: work}
          t: {when: 5m, job: work, timezone: local, retries: null}
        quiet_hours: {n: {windows: ["22:00-07:00"]}}
        budgets: {b: {period: day, max_cost: $5}}
        """)
    first, second = found["schedule", "/s"].meant.definition, found["schedule", "/t"].meant.definition
    assert (first.trigger.timezone, first.retries, first.payload) == ("Europe/Berlin", 3, {"a": 1})
    assert (second.trigger.timezone, second.retries) == ("Asia/Tokyo", 0)
    assert found["quiet_hours", "n"].meant.timezone == "Europe/Berlin"
    assert found["budget", "b"].meant.timezone == "Europe/Berlin"
    assert schedule(PLAIN).trigger.timezone == "UTC"


def test_a_wrong_default_is_told_where_it_stands() -> None:
    told = wrong("defaults: {timezone: Europe/Belrin}\n" + PLAIN)
    assert "line 1, column 22: defaults.timezone" in told[0]


def test_the_digest_is_of_every_setting_and_of_nothing_else() -> None:
    """C7: comments, order and quotes change nothing; every setting does"""
    one = entries("schedules:\n  s: {when: 5m, job: work, retries: 2}\n")["schedule", "/s"].digest
    two = entries("# hi\nschedules:\n  s:\n    job: 'work'\n    retries: 2 # twice\n    when: 5m\n")
    assert two["schedule", "/s"].digest == one
    for more in (
        "paused: true",
        "target: fresh",
        "fallback: skip",
        "catch_up_limit: 3",
        "pre_check: 'true'",
        "jitter: 1",
    ):
        other = entries(f"schedules:\n  s: {{when: 5m, job: work, retries: 2, {more}}}\n")["schedule", "/s"].digest
        assert other != one, more


def test_an_empty_file_is_empty_and_not_wrong() -> None:
    for text in ("", "# nothing yet\n", "---\n", "null\n"):
        assert interpreted(text).empty
        assert interpreted(text).problems == ()
    assert not interpreted("schedules:\n").empty


@given(st.text(max_size=200) | st.binary(max_size=100).map(lambda b: b.decode("latin-1")))
def test_no_text_breaks_the_reader(text: str) -> None:
    """Whatever stands there is read or refused with a place."""
    assert all(problem.position.line >= 1 and problem.what for problem in interpreted(text).problems)


_PARTS = ["when", "job", "schedules", "agents", "s", "5m", "{", "}", "[", "]", "-", "'", '"', "&a", "*a", "|", "#"]
_PARTS += ["null", "prompt", ",", "!!int", "%", ": ", "\n", "  ", "\t", "? "]
_WORDS = st.sampled_from(_PARTS)


@given(st.lists(_WORDS, max_size=30).map("".join))
def test_no_yaml_breaks_the_reader(text: str) -> None:
    read(text)
    interpreted(text)


def test_interval_spelling_is_the_same_as_when() -> None:
    """H12: the same trigger, however it is spelled"""
    spelled = schedule("schedules: {s: {type: interval, interval: 5m, job: w}}").trigger.when
    assert spelled == schedule("schedules: {s: {when: 5m, job: w}}").trigger.when
    assert isinstance(spelled, Interval)

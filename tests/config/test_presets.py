"""The five systems' defaults, where they disagree."""

from __future__ import annotations

import pytest
from config_steps import entries, schedule, wrong

from matins.config.presets import PRESETS


def of(preset: str, when: str) -> object:
    return schedule(f"preset: {preset}\nschedules: {{s: {{when: {when}, job: work}}}}\n")


def test_presets_have_settings_of_schedules() -> None:
    from matins.engine.schedules import SETTINGS

    for preset in PRESETS.values():
        assert set(preset.settings) | set(preset.interval) | set(preset.once) <= set(SETTINGS)


@pytest.mark.parametrize(
    ("preset", "anchor", "first"),
    [
        ("herdctl", "completion", "immediately"),
        ("cortex", "start", "after_interval"),
        ("corvid", "start", "after_interval"),
        ("syris", "start", "immediately"),
        ("polpo", "completion", "after_interval"),
    ],
)
def test_what_an_interval_counts_from(preset: str, anchor: str, first: str) -> None:
    """H3, S1: interval counted from, and its first fire"""
    when = of(preset, "10m").trigger.when
    assert (when.anchor, when.first) == (anchor, first)


def test_missed_slots() -> None:
    """H4, P1, S4, C12: what becomes of what nobody was there for"""
    assert of("polpo", "0 2 * * *").catch_up == "run_once"
    assert of("herdctl", "0 2 * * *").catch_up == "skip"
    assert of("herdctl", "10m").catch_up == "run_once"  # overdue at start: now
    assert of("cortex", "2099-01-01T00:00:00Z").grace_ms == 60_000
    assert of("cortex", "10m").grace_ms is None


def test_cron_of_herdctl_and_polpo() -> None:
    """P3, H4: aliases refused by name in polpo, six fields in herdctl"""
    assert of("herdctl", '"@daily"').trigger.timezone == "Asia/Tokyo"
    assert "expected 5 fields, got 6" in wrong("preset: herdctl\nschedules: {s: {when: 0 0 2 * * *, job: w}}")[0]
    assert "@daily" in wrong('preset: polpo\nschedules: {s: {when: "@daily", job: w}}')[0]


def test_corvid_asks_and_limits() -> None:
    """V1, V3, V4, V6: the floor of five minutes, two at once, five failures, approval"""
    found = entries("preset: corvid\nschedules: {s: {when: 5m, job: work}}\n")
    definition = found["schedule", "/s"].meant.definition
    assert (definition.approval, definition.pause_after_failures) == ("owner_approve", 5)
    assert found["limit", "global"].meant.size == 2
    assert "too short: the minimum is 5m" in wrong("preset: corvid\nschedules: {s: {when: 4m, job: w}}")[0]
    assert entries("preset: corvid\nlimits: {global: 7}\n")["limit", "global"].meant.size == 7


def test_the_closer_setting_counts() -> None:
    """The file's preset, defaults, the schedule's preset, its own settings"""
    text = """
        preset: herdctl
        defaults: {timezone: Europe/Berlin, first: after_interval}
        schedules:
          s: {when: 10m, job: work, preset: syris}
          t: {when: 10m, job: work, preset: syris, first: after_interval, timezone: Asia/Tokyo}
        """
    first, second = schedule(text, "/s").trigger, schedule(text, "/t").trigger
    assert (first.timezone, first.when.anchor, first.when.first) == ("UTC", "start", "immediately")
    assert (second.timezone, second.when.anchor, second.when.first) == ("Asia/Tokyo", "start", "after_interval")


@pytest.mark.parametrize("preset", ["herdctl", "corvid", "syris"])
def test_what_is_late_is_missed(preset: str) -> None:
    """H4, V8, S4: a grace of 60 s, so that nothing is made up for; one-shots keep theirs"""
    assert of(preset, "0 2 * * *").grace_ms == 60_000
    assert of(preset, "2099-01-01T00:00:00Z").grace_ms == 86_400_000


def test_cron_of_corvid() -> None:
    """V1: five fields only"""
    assert "expected 5 fields, got 6" in wrong("preset: corvid\nschedules: {s: {when: 0 0 2 * * *, job: w}}")[0]


def test_agents_of_herdctl() -> None:
    """H10: one run at a time; prompts as they are written"""
    text = "preset: herdctl\nagents: {a: {runner: demo}, b: {runner: demo, max_concurrent: 3}, c: {runner: demo}}\n"
    found = entries(f"{text}limits: {{agent:c: 2}}\nschedules: {{s: {{when: 5m, agent: a, prompt: go}}}}\n")
    assert [found["agent", name].meant.max_concurrent for name in "abc"] == [1, 3, None]
    assert found["schedule", "a/s"].meant.definition.prompt_prefix is False
    assert schedule("schedules: {s: {when: 5m, agent: rover, prompt: go}}", "rover/s").prompt_prefix is True


def test_no_grace_at_all() -> None:
    """H4: `0s` is allowed, and means on time; other durations stay above zero"""
    assert schedule("schedules: {s: {when: 5m, job: w, grace: 0s}}").grace_ms == 0
    assert "Zero interval" in wrong("schedules: {s: {when: 5m, job: w, timeout: 0s}}")[0]


def test_what_herdctl_of_today_writes() -> None:
    """H12: `cron`, `enabled`, `resume_session`, and a work source inside the schedule"""
    found = entries("""
        preset: herdctl
        agents:
          a:
            runner: demo
            schedules:
              report: {type: cron, cron: " 0 9 * * 1-5 ", prompt: go, enabled: false}
              chat: {type: interval, interval: 5m, prompt: go, resume_session: true, enabled: true}
              issues:
                type: interval
                interval: 5m
                work_source: {type: github, repo: octo-org/garden, labels: {ready: todo}, auth: {token_env: GH}}
        """)
    report, chat = found["schedule", "a/report"], found["schedule", "a/chat"]
    assert (report.paused, report.meant.definition.trigger.when.expression) == (True, "0 9 * * 1-5")
    assert (chat.paused, chat.meant.definition.target.channel) == (False, "herdctl:a")
    assert found["schedule", "a/issues"].meant.definition.work_source == "a-issues"
    source = found["work_source", "a-issues"].meant
    assert (source.repo, source.labels, source.token) == ("octo-org/garden", ("todo",), "env:GH")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("type: cron, cron: 0 25 * * *", "hour must be 0-23"),
        ("type: cron, cron: 0 9 * * *, expression: 0 9 * * *", 'needs "expression" alone'),
        ("cron: 0 9 * * *", '"cron" needs "type"'),
        ("when: 5m, work_source: {type: jira}", 'must have "type: github" and "repo"'),
    ],
)
def test_what_is_wrong_in_herdctl_of_today(settings: str, message: str) -> None:
    """H12"""
    assert any(message in each for each in wrong(f"schedules: {{s: {{{settings}, agent: rover, prompt: go}}}}"))

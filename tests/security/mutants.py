"""Each promise of docs/security.md with the guards that keep it, and for each guard the test that fails without it.

`make mutants` takes each guard out of a copy of the source, so that daemons, keepers and wardens lack it too, and runs
the test, which must fail. A text that is not found exactly once is an error: the table follows the code.
"""

# ruff: noqa: E501 - a row is a line

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    file: str
    """From src/matins."""
    text: str
    without: str
    """What stands in place of the text without the guard."""
    test: str
    """From tests: it passes with the guard and fails without it."""
    root: bool = False
    """Whether the test needs root."""
    quick: bool = False
    """A part of `make test`: about two seconds."""


# fmt: off
MUTANTS: dict[str, tuple[Mutant, ...]] = {
    "Matins follows no link that an agent made, and waits for no pipe of its.": (
        Mutant("texts/beneath.py", "_BENEATH | _NO_LINKS | _NO_MAGIC_LINKS)", "_BENEATH)", "texts/test_untrusted_folder.py::test_no_link_is_followed_at_any_level", quick=True),
        Mutant("texts/beneath.py", "os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY", "os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NOCTTY", "texts/test_untrusted_folder.py::test_a_pipe_is_not_waited_for"),
        Mutant("texts/beneath.py", 'raise Refused(path, "it leads through /proc")', "pass", "runtime/test_named_files.py::test_what_leads_through_proc_is_not_covered"),
        Mutant("texts/beneath.py", 'raise Refused(path, "it is a device")', "pass", "runtime/test_named_files.py::test_a_device_is_not_opened"),
        Mutant("texts/beneath.py", "if os.geteuid() == 0 and with_name.linked_by and os.fstat(file).st_uid not in with_name.linked_by:", "if False:", "texts/test_own_folders.py::test_as_root_a_link_of_another_user_leads_to_files_of_that_user_only", root=True),
        Mutant("texts/beneath.py", "if at.linked_by and os.fstat(folder).st_uid not in at.linked_by:", "if False:", "texts/test_own_folders.py::test_as_root_a_folder_behind_another_user_s_link_must_be_that_user_s", root=True),
        Mutant("texts/untrusted_folder.py", "_is_below(path, within) else None", "True else None", "seeds/test_tasks_file_kept.py::test_b16_a_list_of_another_agent_is_not_read"),
        Mutant("texts/untrusted_folder.py", "        return open_beneath(self._fd, name, flags | os.O_NOFOLLOW)", "        return os.open(name, flags & ~os.O_NOFOLLOW, dir_fd=self._fd)", "seeds/test_memory_paths.py::test_the_memory_of_another_agent_is_not_read"),
        Mutant("texts/untrusted_folder.py", "if given_to is not None and os.listdir(child):", "if False:", "texts/test_untrusted_folder.py::test_only_the_new_folder_is_given_away", root=True),
        Mutant("runtime/agent_folders.py", "        if not stat.S_ISREG(mode):", "        if False:", "runtime/test_named_files.py::test_a_pipe_is_not_waited_for_and_not_covered"),
        Mutant("executors/processes/walls.py", "_open_kept(path, layout.hidden)", "os.open(path, _FOLDER)", "security/test_agent_paths.py::test_b16_a_kept_folder_is_not_another_agent_s"),
        Mutant("executors/isolation.py", "return _real(Path(path)) == real + written[len(form) :]", "return is_below(_real(Path(path)), real)", "security/test_agent_paths.py::test_b16_a_workdir_does_not_become_another_agent_s"),
        Mutant("executors/runners/session_files.py", "        if not _ID.fullmatch(session):", "        if False:", "executors/runners/test_session_files.py::test_an_id_is_no_pattern_and_no_path"),
        Mutant("executors/runners/session_files.py", "open_folder(self._folder, self._owner)", "open_folder(self._folder)", "executors/runners/test_session_files.py::test_files_must_belong_to_the_account", root=True),
        Mutant("executors/runners/session_files.py", "open_folder(self._folder, self._owner)", "UntrustedFolder(self._folder, owner=self._owner)", "executors/runners/test_session_files.py::test_the_folder_does_not_lead_into_the_home"),
        Mutant("executors/preparation.py", "            owner=_owner(agent),", "            owner=None,", "security/test_agent_paths.py::test_b16_records_of_a_session_are_looked_for_in_the_home_of_the_account", root=True),
        Mutant("texts/untrusted_folder.py", "open_folder(base, within=workdir)", "open_folder(base)", "seeds/test_memory_paths.py::test_an_input_does_not_name_another_agent_s_memory"),
        Mutant("github/jobs.py", 'place.read_whole(".git/config", _MAX_CONFIG_BYTES)', 'open(f"{folder}/.git/config", "rb").read(64_001)', "github/test_repository_paths.py::test_the_repository_of_another_agent_is_not_read"),
        Mutant("store/sqlite/store.py", "flags=_NO_LINK", "flags=apsw.SQLITE_OPEN_READWRITE", "service/test_backup.py::test_b16_a_link_in_the_place_of_the_new_copy_is_not_followed"),
        Mutant("github/jobs.py", "from matins.model.job import Brief, ErrandPlace", 'from matins.model.job import Brief, ErrandPlace; OPENED = open("/dev/null")', "security/test_paths_lint.py::test_b16_files_are_touched_only_where_no_agent_can_lead_them_elsewhere"),
        Mutant("executors/inside/tool_setup.py", "os.O_RDONLY | os.O_NONBLOCK", "os.O_RDONLY", "executors/test_tool_settings.py::test_settings_that_cannot_be_read_are_left_to_the_tool[a pipe]"),
        Mutant("executors/preparation.py", "before = (*before, *setup_command(account_of(agent)))", "pass", "security/test_tool_files.py::test_b16_settings_that_are_none_cost_the_engine_nothing[fine]"),
        Mutant("executors/preparation.py", "layout=self._layout(agent, folder), account=account_of(agent),", "layout=None, account=account_of(agent),", "security/test_tool_files.py::test_b16_records_of_goose_are_read_inside_the_walls"),
        Mutant("executors/preparation.py", "layout=self._layout(agent, folder), account=account_of(agent),", "layout=self._layout(agent, folder), account=None,", "security/test_tool_files.py::test_b16_records_of_goose_are_not_read_as_root", root=True),
        Mutant("executors/inside/goose_usage.py", "if not stat.S_ISREG(os.stat(path).st_mode):", "if False:", "executors/runners/test_goose_sessions.py::test_b16_a_store_that_is_none_is_not_known[a pipe]"),
        Mutant("executors/inside/goose_usage.py", 'file.name.endswith(".log") and file.is_file()', 'file.name.endswith(".log")', "executors/runners/test_goose_sessions.py::test_b16_a_log_that_is_none_tells_no_problem[a pipe]"),
        Mutant("records/policies.py", "decoded(path, read_file(path, _MAX_ICS_BYTES))", "path.read_text()", "gates/test_gate_calendar.py::test_an_agent_cannot_lead_a_calendar_elsewhere"),
    ),
    "What an agent writes costs the engine 4 MB at a time.": (
        Mutant("texts/beneath.py", 'b""\n    if status.st_size > limit or len(data) > limit:', "os.pread(file, status.st_size, 0)\n    if False:", "texts/test_untrusted_folder.py::test_a_large_file_costs_no_memory"),
        Mutant("texts/untrusted_folder.py", "if number >= most:", "if False:", "texts/test_untrusted_folder.py::test_listing_ends", quick=True),
        Mutant("executors/runners/session_files.py", "skipped, self._in_long_line = self._in_long_line or len(line) > MAX_LINE_BYTES, False", "skipped, self._in_long_line = False, False", "executors/runners/test_session_files.py::test_a_long_line_is_skipped_and_the_next_is_read"),
        Mutant("executors/runners/session_files.py", "while self._offset < MAX_SESSION_BYTES:", "while True:", "executors/runners/test_session_files.py::test_a_large_file_costs_little"),
        Mutant("executors/runners/session_files.py", "folder.read(name, MAX_LOOK_BYTES, self._offset)", "folder.read(name, 900_000_000, self._offset)", "executors/runners/test_session_files.py::test_a_large_file_costs_little"),
        Mutant("texts/untrusted_folder.py", "data = self._folder.read_whole(self.path.name, MAX_BYTES)", "data = self.path.read_bytes()", "seeds/test_tasks_file_kept.py::test_a_file_that_cannot_be_read_is_named"),
        Mutant("seeds/cortex/jobs.py", "memory.read(f'{kind}/{name}', MAX_NOTE_BYTES)", "memory.read(f'{kind}/{name}')", "seeds/test_memory_paths.py::test_notes_are_bounded_and_not_waited_for"),
        Mutant("executors/worktrees.py", '.outcome", _MAX_BYTES)', '.outcome")', "github/test_repository_paths.py::test_an_outcome_is_bounded_and_not_waited_for"),
        Mutant("executors/isolation.py", "len(names) <= _MAX_STORE_FILES and ", "", "security/test_isolation_paths.py::test_b16_a_folder_with_many_files_is_not_the_store_s_own"),
        Mutant("executors/inside/tool_setup.py", "stream.read(_MAX_BYTES + 1)", "stream.read()", "executors/test_tool_settings.py::test_settings_that_cannot_be_read_are_left_to_the_tool[900 MB of nothing]"),
        Mutant("executors/inside/tool_setup.py", "or len(data) > _MAX_BYTES", "or False", "executors/test_tool_settings.py::test_settings_that_cannot_be_read_are_left_to_the_tool[too long]"),
        Mutant("executors/commands.py", "memory_bytes=memory_bytes)", "memory_bytes=None)", "executors/test_commands.py::test_b16_a_command_may_have_a_limit_of_memory"),
        Mutant("executors/inside/goose_usage.py", "resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S))", "pass", "executors/runners/test_goose_sessions.py::test_b16_a_view_without_end_has_two_seconds"),
        Mutant("executors/inside/goose_usage.py", "resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))", "pass", "executors/runners/test_goose_sessions.py::test_b16_a_store_that_needs_much_memory_gets_none"),
        Mutant("executors/inside/goose_usage.py", "os.fstat(stream.fileno()).st_size - _MAX_LOG_BYTES", "0", "executors/runners/test_goose_sessions.py::test_b16_a_long_log_is_read_from_its_end"),
        Mutant("coding_tools/goose.py", "if len(output) > _MAX_ANSWER_LENGTH:", "if False:", "executors/runners/test_goose_sessions.py::test_b5_an_answer_that_cannot_be_right_is_none"),
        Mutant("service/search.py", "lines += islice(found, limit)", "lines += found", "service/test_output.py::test_a_run_with_many_lines_costs_no_more_than_is_asked_for"),
    ),
    "What Matins sends for an agent is what its run could read, without the secrets of the run.": (
        Mutant("texts/untrusted_folder.py", "own, ahead, seen = forbidden() | unseen", "own, ahead, seen = forbidden()", "executors/test_attachments.py::test_folders_that_the_agent_does_not_see_are_passed_over"),
        Mutant("texts/untrusted_folder.py", "own, ahead, seen = forbidden() | unseen", "own, ahead, seen = unseen", "executors/test_attachments.py::test_folders_of_matins_are_passed_over"),
        Mutant("service/runs.py", "found = attach(files, workdir, uid, 0, secrets, copies, agent.hidden)", "found = attach(files, workdir, uid, 0, secrets, copies)", "service/test_messages.py::test_what_the_agent_does_not_see_is_not_sent"),
        Mutant("service/runs.py", "as_scheduled(agent, compiled.definition), policies", "agent, policies", "service/test_messages.py::test_what_the_agent_does_not_see_is_not_sent"),
        Mutant("executors/attachments.py", "if _has_secret(data, secrets):", "if False:", "executors/test_attachments.py::test_what_is_left_out_is_said"),
        Mutant("executors/attachments.py", '"name": _shown(name.rpartition("/")[2])', '"name": name.rpartition("/")[2]', "executors/test_attachments.py::test_names_that_are_no_text_are_shown"),
        Mutant("executors/attachments.py", "if len(found.left_out) == _MAX_LEFT_OUT:", "if False:", "executors/test_attachments.py::test_many_files_are_counted_not_named"),
        Mutant("service/runs.py", "discard(copies)\n", "pass\n", "service/test_messages.py::test_what_is_refused_leaves_no_copies"),
    ),
    "An agent cannot put another directory in the place of the home, or of the environment that Matins runs from.": (
        Mutant("executors/processes/walls.py", "for path in layout.pinned:", "for path in ():", "security/test_isolation_pins.py::test_b16_a_restart_finds_the_same_home_and_the_same_code"),
        Mutant("executors/processes/walls.py", "if not os.path.islink(path):  # noqa: PTH114", "if True:", "security/test_isolation_pins.py::test_b16_no_step_of_the_way_can_be_renamed_or_replaced[True]"),
        Mutant("executors/isolation.py", "found = [str(Path(__file__).parents[2]), *map(", "found = [*map(", "security/test_isolation_pins.py::test_b16_a_restart_finds_the_same_home_and_the_same_code"),
        Mutant("config/file.py", "file = read(self.path, self._folder)", "file = read(self.path)", "daemon/test_moved_home.py::test_b16_a_running_daemon_reads_its_own_home_only"),
        Mutant("config/file.py", "if self._folder is not None and not _is_at(self._folder, self.path.parent):", "if False:", "daemon/test_moved_home.py::test_b16_nothing_is_written_to_a_home_that_was_put_in_its_place"),
        Mutant("daemon/service.py", 'argv = [sys.executable, "-P", "-m"', 'argv = [sys.executable, "-m"', "daemon/test_systemd.py::test_b16_a_module_where_it_starts_is_not_the_daemon"),
        Mutant("executors/isolation.py", "        _make_user_site()", "        pass", "security/test_isolation_pins.py::test_b16_the_user_s_folder_of_python_is_frozen_also_where_there_is_none"),
    ),
    "A `file:` secret outside the home never leads into it.": (
        Mutant("texts/beneath.py", "            if here in forbidden:\n                return True\n", "", "texts/test_untrusted_folder.py::test_a_named_path_follows_links_but_not_into_a_forbidden_folder", quick=True),
        Mutant("texts/beneath.py", "            if here in forbidden:", "            if False:", "texts/test_own_folders.py::test_a_secret_does_not_lead_into_the_home"),
        Mutant("executors/secrets.py", "read_file(path, MAX_BYTES)", "path.read_bytes()", "security/test_agent_paths.py::test_b16_a_secret_does_not_become_the_owner_s_token"),
        Mutant("github/__init__.py", "read_file(Path(location).expanduser(), _MAX_TOKEN_BYTES)", "Path(location).expanduser().read_bytes()", "texts/test_own_folders.py::test_a_secret_does_not_lead_into_the_home"),
    ),
    "Nothing that a run does to its supervisor lets it outlive timeout, cancel or stop by more than the grace and a few seconds.": (
        Mutant("executors/processes/walls.py", "return spawn() if self._signal_rules is None else spawn_below(self._signal_rules, spawn)", "return spawn()", "executors/processes/test_watchers.py::test_prevent_alone_an_isolated_command_cannot_signal_its_warden"),
        Mutant("executors/processes/keeper.py", "os.WNOHANG | os.WUNTRACED", "os.WNOHANG", "executors/processes/test_watchers.py::test_continue_alone_a_stopped_warden_goes_on_and_ends_its_run[open]"),
        Mutant("executors/processes/keeper.py", "ended = self._stops[pid] > self._max_stops", "ended = False", "executors/processes/test_watchers.py::test_continue_alone_a_run_that_stops_its_warden_again_and_again_is_ended[open]"),
        Mutant("executors/processes/keeper.py", 'try_send(engine, {"stopped": [pid, self._wardens[pid]], "ended": ended})', "pass", "executors/processes/test_watchers.py::test_continue_alone_a_run_that_stops_its_warden_again_and_again_is_ended[open]"),
        Mutant("executors/processes/supervisor.py", "watched is not None and watched.deadline.missed_by(now, at) >= watching.late_ms", "False", "executors/processes/test_watchers.py::test_take_over_alone_after_the_timeout[open]"),
        Mutant("executors/processes/supervisor.py", "(lasts >= watching.stopped_ms and warden.is_stopped())", "False", "executors/processes/test_watchers.py::test_take_over_alone_after_silence[open]"),
        Mutant("executors/processes/supervisor.py", "warden.stops > _MAX_STOPS", "False", "executors/processes/test_watchers.py::test_take_over_alone_of_a_warden_that_is_stopped_whenever_it_was_continued[open]"),
        Mutant("executors/processes/supervisor.py", "watched.deadline.require(ended_by, self._time.advance(self._clock()))", "pass", "executors/processes/test_watchers.py::test_take_over_alone_after_a_request[open-cancelled]"),
        Mutant("executors/processes/supervisor.py", "warden.send_signal(signal.SIGCONT)", "pass", "executors/processes/test_watchers.py::test_a_slow_warden_that_answers_in_the_end_is_left_alone"),
        Mutant("executors/processes/supervisor.py", "if warden.was_stopped:", "if False:", "executors/processes/test_watchers.py::test_a_warden_that_was_stopped_serves_no_other_run"),
        Mutant("executors/processes/watching.py", "max(0, min(now - self._last, self._max_step_ms))", "max(0, now - self._last)", "executors/processes/test_watchers.py::test_after_a_suspend_the_runs_go_on"),
        Mutant("executors/processes/warden.py", '{"key": key, "on": on, **self._times(key)}', '{"key": key, "on": on}', "executors/processes/test_watchers.py::test_take_over_of_an_adopted_run[open]"),
        Mutant("executors/processes/wardens.py", "proc.kill_all(lambda: proc.descendants(keeper.pid, sparing=wardens), _MAX_ROUNDS)", "pass", "executors/processes/test_watchers.py::test_a_keeper_that_stays_silent_is_replaced_and_wardens_go_on"),
        Mutant("daemon/daemon.py", "interval_s is not None and self._matins.is_turning()", "interval_s is not None and (self._matins.is_turning() or True)", "daemon/test_systemd.py::test_the_watchdog_hears_of_a_daemon_whose_engine_does_its_turns"),
        Mutant("executors/conclusions.py", 'process.ended_by in (None, "exit_timeout")', 'process.ended_by in (None, "exit_timeout", "supervisor")', "executors/test_reports.py::test_b9_a_run_that_stops_its_supervisor_has_failed"),
        Mutant("executors/conclusions.py", 'process.ended_by not in (None, "supervisor")', "process.ended_by is not None", "executors/test_agents_faults.py::test_b9_a_run_that_stops_its_supervisor_after_its_final_event_has_failed"),
    ),
    "No text keeps the engine busy for more than a moment.": (
        Mutant("texts/untrusted_folder.py", "UntrustedFolder(path, forbidden() | unseen, owner)", "UntrustedFolder(path, forbidden(), owner)", "executors/test_attachments.py::test_a_link_in_the_place_of_the_folder_leads_to_nothing_hidden[private/deep]"),
        Mutant("service/runs.py", "if speaker.host not in (None, socket.gethostname()):", "if False:", "service/test_messages.py::test_files_of_a_run_on_another_machine_are_not_looked_for_here"),
        Mutant("delivery/destinations/layout.py", "if sha256(data).hexdigest() != self.digest:", "if False:", "delivery/test_answers_cut_off.py::test_b16_files_that_an_outcome_names_are_sent_only_as_they_were_copied[False]"),
        Mutant("runtime/command_files.py", "lambda one, of=known: of(one[1] or one[2], one[0])", "lambda one: one[0]", "security/test_plain_command_trust.py::test_scripts_are_found_however_they_are_named"),
        Mutant("runtime/command_files.py", "nearest = files_of([words[number]], folder, expected) or nearest", "nearest = next(filter(None, (files_of([one], folder, expected) for one in words[number:])), {})", "security/test_long_texts.py::test_commands_are_read_in_a_moment"),
        Mutant("engine/schedules.py", "if size > _MAX_STEP_COMMANDS:", "if False:", "security/test_long_texts.py::test_commands_are_read_in_a_moment"),
        Mutant("texts/markdown.py", 'if token.content.count("[") > _MAX_BRACKETS:', "if False:", "texts/test_markdown.py::test_no_text_keeps_the_parser_busy[brackets]"),
        Mutant("texts/markdown.py", "tables=_has_small_tables(head)", "tables=True", "texts/test_markdown.py::test_no_text_keeps_the_parser_busy[tables]"),
        Mutant("texts/markdown.py", "min(_MAX_COLUMN, max(map(len, column)))", "max(map(len, column))", "texts/test_markdown.py::test_a_wide_cell_does_not_widen_all_rows"),
        Mutant("engine/prompts.py", '\\{\\{([^{}]*)\\}\\}"', '\\{\\{\\s*([^{}]*?)\\s*\\}\\}"', "test_patterns.py"),
        Mutant("engine/calls.py", "if isinstance(value, str) and len(value) > MAX_TEXT_LENGTH:", "if False:", "security/test_long_texts.py"),
        Mutant("chat/messages.py", "    if len(message) > MAX_LENGTH:", "    if False:", "security/test_long_texts.py"),
        Mutant("web/visit.py", 'if scope["query_string"].count(b"&") >= _MAX_QUERY:', "if False:", "web/test_bounce.py"),
        Mutant("service/calls.py", 'if delivery.body.count(b"&") >= _MAX_FIELDS:', "if False:", "surfaces/http/test_inbound.py::test_a_form_has_at_most_a_thousand_fields"),
        Mutant("executors/inside/tool_setup.py", "(OSError, ValueError, RecursionError)", "(OSError, ValueError)", "executors/test_tool_settings.py::test_settings_that_cannot_be_read_are_left_to_the_tool[nested without end]"),
        Mutant("coding_tools/goose.py", "_TIMEOUT_MS = 5_000", "_TIMEOUT_MS = 600_000", "security/test_tool_files.py::test_b16_records_of_goose_do_not_block_the_daemon[journal]"),
        Mutant("engine/calls.py", "            _check_size(path, [operand], field)", "            pass", "security/test_long_texts.py::test_a_filter_has_numbers_that_can_be_stored"),
        Mutant("engine/ics.py", "if (left := left - length) < 0:", "if len(found) > _MAX_DAYS:", "gates/test_gate_calendar.py::test_a_calendar_costs_no_more_than_its_days"),
        Mutant("seeds/cortex/tasks.py", "    numbers = counts[text]\n", "    numbers = count()\n", "seeds/test_tasks_text.py::test_ids_of_many_equal_tasks_are_made_in_a_moment"),
    ),
    "An agent reads other agents' names, times, states and codes, never their words.": (
        Mutant("store/selection.py", 'yield f"{has} AND {_MAY_KNOW}"', "yield has", "security/test_words_of_others.py::test_b7_no_selector_tells_an_agent_labels_of_others"),
        Mutant("mcp/tools.py", 'with_command(one["sentence"], None, one["command"])', 'with_command(one["sentence"], one["quote"], one["command"])', "security/test_words_of_others.py::test_p4_what_others_wrote_stands_between_marks"),
        Mutant("api/results/runs.py", 'input: Content[Any]\n    """What the run was given', 'input: Any\n    """What the run was given', "security/test_words_of_others.py::test_b7_no_use_case_gives_an_agent_words_of_others"),
        Mutant("service/service.py", "changes = {} if own else dict(parts.blank)", "changes = dict[str, Any]()", "security/test_words_of_others.py::test_b7_no_tool_gives_an_agent_words_of_others"),
        Mutant("service/service.py", "        return own if schedule_id is None else self.owns_schedule(int(schedule_id))", "        return True if schedule_id is None else self.owns_schedule(int(schedule_id))", "security/test_words_of_others.py::test_b7_the_agent_itself_reads_its_words"),
        Mutant("service/service.py", '        return InvalidFile("The file is not valid."', '        return error or InvalidFile("The file is not valid."', "security/test_words_of_others.py::test_b7_a_file_tells_an_agent_nothing_of_what_is_in_it"),
        Mutant("service/service.py", '_OF_SCHEDULE = frozenset(["schedules.preview_edit", "schedules.history"])', '_OF_SCHEDULE = frozenset(["schedules.history"])', "security/test_words_of_others.py::test_b7_an_agent_tries_no_edit_of_what_is_not_its_own"),
        Mutant("api/results/runs.py", '    note: Content[str | None]\n    """Why the schedule is paused', '    note: str | None\n    """Why the schedule is paused', "api/test_content_marks.py::test_b7_every_text_is_content_or_known_to_be_plain[Schedule]"),
        Mutant("api/results/forecasts.py", "    standing: str\n    quote: Content[str | None]", "    standing: str\n    quote: str | None", "security/test_words_of_others.py::test_b7_no_tool_gives_an_agent_words_of_others"),
        Mutant("engine/gates/limits.py", '"until": found.resets_at}', '"until": found.resets_at, "why": found.reason}', "security/test_words_of_others.py::test_b7_the_agent_itself_reads_its_words"),
        Mutant("mcp/principal_calls.py", "Quoted(fenced(what, str(cut(as_data(text), limit))))", "Quoted(str(cut(as_data(text), limit)))", "security/test_words_of_others.py::test_p4_what_others_wrote_stands_between_marks"),
        Mutant("service/runs.py", '(reason, None) if reason in CAUSES else ("cancelled", reason)', "(reason, None)", "security/test_words_of_others.py::test_b7_no_tool_gives_an_agent_words_of_others"),
        Mutant("service/service.py", "_CHECKED = _OF_RUN | _OF_THREAD | _OF_SCHEDULE", "_CHECKED = frozenset[str]()", "security/test_words_of_others.py::test_b7_an_agent_tries_no_edit_of_what_is_not_its_own"),
        Mutant("surfaces/http/stream.py", 'if principal.role == "agent":  # all', "if False:  # all", "security/test_words_over_the_wire.py::test_b7_an_agent_follows_no_events"),
        Mutant("api/results/runs.py", "    last_error: Content[str | None]", "    last_error: str | None", "security/test_words_over_the_wire.py::test_b7_no_surface_gives_an_agent_what_others_made_on_this_machine"),
        Mutant("service/service.py", 'if use_case.name in _OF_RUN and not view.owns_run(values["run_id"]):', "if False:", "security/test_words_over_the_wire.py::test_b7_no_surface_gives_an_agent_what_others_made_on_this_machine"),
    ),
    "Text that people decide by shows every invisible character.": (
        Mutant("model/words.py", "(0x3164, 0x3164), ", "", "security/test_hidden_characters.py::test_no_name_has_a_hidden_character"),
        Mutant("model/words.py", "or character in BLANK", "", "security/test_hidden_characters.py::test_no_name_has_a_hidden_character"),
    ),
    "What was approved is what runs, work item included.": (
        Mutant("runtime/clearance.py", 'if changed and not self._is_approved(transaction, row, item, now, {"changed": changed}):', "if False:", "security/test_approved_commands.py::test_a_changed_script_does_not_run_and_the_run_waits[pre_check-program]"),
        Mutant("executors/check_executor.py", "if check.files.get(path) != content]", "if False]", "security/test_approved_commands.py::test_a_script_swapped_between_gate_and_start_does_not_run"),
        Mutant("delivery/webhooks.py", "if changed := changed_of([command], delivery.allowed, queue.policies):", "if changed := []:", "security/test_approved_commands.py::test_a_run_cannot_change_the_command_after_it[the run]"),
        Mutant("runtime/command_files.py", "kept = {name for name in COMMANDS if before is not None and name not in given}", "kept = set()", "security/test_approved_commands.py::test_only_a_command_that_is_set_again_takes_its_file_as_it_is[another setting]"),
        Mutant("runtime/command_files.py", 'if "/" not in program and (path := shutil.which(program)) is not None:', "if (path := None) is not None:", "security/test_approved_commands.py::test_what_leads_to_another_file_counts_as_changed[PATH]"),
        Mutant("runtime/command_files.py", ' and not _is_in(folder, f"{closed}/{AGENTS}")', "", "security/test_approved_commands.py::test_a_script_that_no_agent_can_write_may_change"),
        Mutant("runtime/approval_requests.py", "more += [part for part in (files, item) if part]", "more += [part for part in (files,) if part]", "security/test_approved_items.py::test_an_item_that_was_swapped_is_asked_for_again[sqlite_file-tasks-before the approval]"),
        Mutant("executors/preparation.py", 'if context.approval is not None and shown_item(held.item) != context.approval.request.get("work_item"):', "if False:", "security/test_approved_items.py::test_an_item_that_was_swapped_is_asked_for_again[sqlite_file-tasks-before the approval]"),
        Mutant("runtime/clearance.py", "if approval_requests.takes_work(item):", "if False:", "security/test_approved_items.py::test_the_item_is_shown_whole_and_runs_as_it_was_shown[sqlite_file-tasks]"),
        Mutant("delivery/webhooks.py", "source.release(item.id, item.run_key, now)", "pass", "security/test_approved_items.py::test_an_item_without_a_started_run_is_released[sqlite_file-tasks-denied]"),
        Mutant("runtime/approval_requests.py", "if changed:  # an agent may have written it: a request that expires must not allow it", "if False:", "security/test_approved_commands.py::test_an_expired_request_does_not_allow_a_changed_script"),
        Mutant("records/policies.py", 'if before is not None and before.command == hook.command and "command" not in change.given:', "if False:", "security/test_approved_commands.py::test_a_hook_that_is_set_again_lets_waiting_runs_go_on"),
        Mutant("service/file/apply.py", "with_files(definition, schedule.agent, policies, schedule.definition)", "with_files(definition, schedule.agent, policies)", "security/test_approved_commands.py::test_a_file_that_is_saved_again_takes_no_new_digest"),
        Mutant("runtime/agent_folders.py", "if content is None and path in expected:", "if False and path in expected:", "security/test_approved_commands.py::test_a_file_that_is_gone_has_changed"),
    ),
    "What a pre-check or a hook of an isolated agent starts has no more rights than the agent.": (
        Mutant("executors/commands.py", "layout=view.layout,", "layout=None,", "security/test_commands_behind_walls.py::test_b16_an_exchanged_script_does_not_read_the_owner_s_token[ordinary-pre_check]"),
        Mutant("executors/commands.py", "self._owners_view if self._is_owners(command) else self._view", "self._owners_view", "security/test_commands_behind_walls.py::test_b16_what_a_command_starts_from_a_repository_does_not_read_the_owner_s_token[ordinary-git-after_run]"),
        Mutant("executors/commands.py", "account=view.account,", "account=None,", "security/test_commands_behind_walls.py::test_b16_an_exchanged_script_does_not_read_the_owner_s_token[root-after_run]", root=True),
        Mutant("executors/commands.py", "return all(agent.isolation == \"none\" for agent in self._policies.agents.values())", "return True", "security/test_commands_behind_walls.py::test_b16_a_schedule_without_an_agent_has_walls_where_agents_have[ordinary]"),
        Mutant("executors/commands.py", "if covered and not seen and os.path.lexists(path):", "if False:", "security/test_commands_behind_walls.py::test_b16_a_command_that_would_not_see_a_file_says_so"),
        Mutant("executors/isolation.py", 'not is_at(_real(Path(path)), f"{_real(home)}/{AGENTS}") and ', "", "security/test_commands_behind_walls.py::test_b16_a_script_in_the_folder_of_an_agent_is_not_the_owner_s[ordinary]"),
        Mutant("executors/isolation.py", "or not _is_written_below(path, home):", "or not is_below(path, str(home)):", "executors/test_owner_commands.py::test_b16_what_starts_anything_else_is_not", quick=True),
        Mutant("executors/commands.py", "isinstance(command, str) and not _PLAIN_TEXT.fullmatch(command)", "False", "executors/test_owner_commands.py::test_b16_what_starts_anything_else_is_not"),
        Mutant("executors/commands.py", " and self._has_safe_interpreter(script)", "", "executors/test_owner_commands.py::test_b16_the_first_line_of_a_script_starts_what_no_agent_can_replace"),
        Mutant("executors/commands.py", "_View(variables=OUTSIDE)", "_View()", "security/test_commands_behind_walls.py::test_b16_python_outside_runs_no_file_of_the_user_s[ordinary]"),
        Mutant("executors/commands.py", 'or may_gain_files(folder, self._policies)', "", "executors/test_owner_commands.py::test_b16_an_interpreter_is_found_where_no_agent_can_put_another"),
        Mutant("runtime/command_files.py", "return bool(os.stat(folder).st_mode & _WRITABLE)", "return False", "executors/test_owner_commands.py::test_b16_an_interpreter_is_found_where_no_agent_can_put_another"),
    ),
    "As root, an agent without an account does not run unless you say so.": (
        Mutant("records/agents.py", "    isolation.check_account(agent, _ACCOUNT)", "    pass", "security/test_isolation_root.py::test_b16_as_root_an_agent_without_an_account_is_refused", root=True),
        Mutant("executors/isolation.py", "        check_account(agent)\n        refusal", "        refusal", "security/test_isolation_root.py::test_b16_as_root_a_run_without_an_account_is_refused", root=True),
    ),
    "The log records what was done, and a change of it in the store is found": (
        Mutant("engine/audit.py", "elif revision_fingerprint(row) != entry.digest:", "elif False:", "security/test_audit_definitions.py::test_b16_a_definition_that_was_changed_is_named_with_its_event[a prompt-]"),
        Mutant("engine/audit.py", "elif entry.digest != digest:", "elif False:", "security/test_audit_definitions.py::test_b16_a_definition_that_was_changed_is_named_with_its_event[a rule-]"),
        Mutant("engine/audit.py", "if entry.digest is not None and key not in records:", "if False:", "security/test_audit_definitions.py::test_b16_a_deleted_and_an_invented_definition_are_named[an agent-]"),
        Mutant("service/audit.py", "if transaction.count_revisions() != len(self._definitions.seen):", "if False:", "security/test_audit_definitions.py::test_b16_a_deleted_and_an_invented_definition_are_named[a revision-]"),
        Mutant("engine/audit.py", 'if row.state in _RUNNING[entry.digest or ""]:', "if False:", "security/test_audit_definitions.py::test_b16_a_schedule_that_was_let_run_in_the_store_is_named[pending-]"),
        Mutant("engine/audit.py", 'current = event.type != "run.varied" and event.run_id is None', "current = True", "security/test_audit_definitions.py::test_b16_settings_that_a_run_was_started_with_are_bound"),
    ),
    "An agent, a person and a token with the same name never count as one another.": (
        Mutant("service/permissions.py", "schedule.paused_by != principal.who", 'name_of(schedule.paused_by or "") != principal.name', "security/test_principals.py::test_b7_an_agent_does_not_resume_what_its_namesake_paused[person]"),
        Mutant("engine/approvals.py", "{name_of(vote.voter): vote for vote in valid}.values()", "valid", "security/test_principals.py::test_v6_a_namesake_of_the_agent_may_approve_and_counts"),
        Mutant("engine/approvals.py", "return principal.name in _author_names(approval) or any", "return any", "security/test_principals.py::test_v6_an_author_cannot_approve_by_another_way[person]"),
        Mutant("records/people.py", 'if name in policies.agents or any(token.role == "agent" for token in valid):', "if False:", "security/test_principals.py::test_b7_an_agent_and_a_token_do_not_have_one_name"),
    ),
    "Who signs in is who was asked for.": (
        Mutant("service/sign_in.py", 'if link.browser is None or link.browser == hash_of(browser or ""):', "if True:", "surfaces/http/test_http_sign_in.py::test_a_mailed_link_signs_in_the_browser_that_asked_and_once"),
        Mutant("net/oidc.py", 'nonce={"essential": True, "value": nonce},', "", "surfaces/http/test_http_sign_in.py::test_a_forged_answer_signs_nobody_in"),
        Mutant("net/oidc.py", 'aud={"essential": True, "value": self._client_id},', "", "surfaces/http/test_http_sign_in.py::test_a_forged_answer_signs_nobody_in"),
        Mutant("net/oidc.py", 'raise ProviderError("the state is not that of this browser")', "pass", "surfaces/http/test_http_sign_in.py::test_a_forged_state_another_browser_and_a_second_time_are_refused"),
        Mutant("service/sign_in.py", 'if not address or claims.get("email_verified") is not True:', "if not address:", "surfaces/http/test_http_sign_in.py::test_a_provider_signs_in_by_its_subject_from_then_on"),
    ),
    "A grant is for what it names, and no change widens it.": (
        Mutant("service/proposals.py", "check_reach(principal, schedule.agent, definition)", "pass", "service/test_signing_in.py::test_no_change_moves_a_schedule_into_a_grant_or_out_of_it"),
        Mutant("service/proposals.py", "check_reach(principal, draft.agent, draft.definition)", "pass", "service/test_signing_in.py::test_no_change_moves_a_schedule_into_a_grant_or_out_of_it"),
        Mutant("service/runs.py", "check_reach(principal, schedule.agent, compiled.definition)", "pass", "service/test_signing_in.py::test_no_change_moves_a_schedule_into_a_grant_or_out_of_it"),
        Mutant("service/core.py", "check_reach(principal, schedule.agent, schedule.definition)", "pass", "service/test_signing_in.py::test_no_change_moves_a_schedule_into_a_grant_or_out_of_it"),
    ),
    "What gives rights away, or cannot be undone, needs a browser that signed in within the hour.": (
        Mutant("service/service.py", "check_fresh(principal, self.core.clock.now_ms())", "pass", "service/test_signing_in.py::test_what_cannot_be_undone_needs_a_sign_in_within_the_hour"),
        Mutant("service/bulk.py", 'if do == "delete":\n            check_fresh(principal, now)', 'if do == "delete":\n            pass', "service/test_signing_in.py::test_what_cannot_be_undone_needs_a_sign_in_within_the_hour"),
    ),
    "A signed delivery that is repeated within 24 hours under another id starts nothing.": (
        Mutant("net/inbound.py", '_in_header("x-github-delivery"), _body,', '_in_header("x-github-delivery"), _id_counts,', "surfaces/http/test_inbound.py::test_b16_what_was_signed_starts_nothing_again_under_another_id"),
        Mutant("net/inbound.py", 'return None if "{id}" in endpoint.signed else _hmac_content(endpoint, delivery)', "return None", "surfaces/http/test_inbound.py::test_b16_a_time_that_is_signed_makes_another_delivery"),
        Mutant("runtime/calls.py", "first = None if call.signed is None else transaction.claim_signed(call, now, now - SIGNED_MS)", "first = None", "service/test_calls.py::test_b16_what_was_signed_is_one_call_for_a_day"),
    ),
    "It runs no more often than `min_interval`.": (
        Mutant("engine/approvals.py", "if last is None or not 0 <= now - last < rules.min_interval_ms:", "if True:", "security/test_standing_one_shots.py::test_b7_one_shots_of_a_standing_token_are_approved_by_rules_an_interval_apart"),
        Mutant("service/schedule_changes.py", "transaction.set_last_one_shot(principal.name, now)", "pass", "security/test_standing_one_shots.py::test_b7_a_deleted_one_shot_still_counts"),
    ),
    "Nothing that it starts outlives its run.": (
        Mutant("executors/processes/proc.py", ' in b"ZX" and int(fields[17]) <= 1)', ' in b"ZX")', "executors/processes/test_process_limits.py::test_b9_who_looks_dead_is_killed_too"),
    ),
    "A run neither reads nor writes terminals of its user.": (
        Mutant("executors/processes/walls.py", "    _hide_terminals()\n", "    pass\n", "security/test_terminals.py::test_b16_an_agent_does_not_write_on_a_terminal_of_its_user[required-False]"),
    ),
    "A command sends its token only to the running daemon of the home.": (
        Mutant("surfaces/transports/http_client.py", "        self.check()", "        pass", "security/test_taken_ports.py::test_b16_a_command_that_follows_events_tells_no_token"),
        Mutant("surfaces/bridge.py", "            self._check()", "            pass", "security/test_taken_ports.py::test_b16_the_tools_of_a_client_tell_no_token"),
    ),
    "A tool that an agent replaced does not run outside the walls because the agent asks for it.": (
        Mutant("executors/agent_checks.py", "layout=layout,", "layout=None,", "security/test_isolation_tools.py::test_b16_a_tool_tells_its_version_behind_the_walls[required-False]"),
        Mutant("executors/agent_checks.py", "account=account,", "account=None,", "security/test_isolation_tools.py::test_b16_a_tool_of_an_account_is_not_started_by_root_for_its_version", root=True),
    ),
    "What it schedules does nothing until a person approves it.": (
        Mutant("surfaces/cli/export.py", '_LEFT = ("removed", "expired", "rejected", "pending")', '_LEFT = ("removed", "expired", "rejected")', "surfaces/cli/test_cli_export.py::test_what_waits_for_an_approval_is_not_exported"),
    ),
}

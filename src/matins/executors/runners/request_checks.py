"""Checks of calls: for all tools, and for settings that only some tools support."""

from __future__ import annotations

import difflib
import math
import reprlib
import uuid
from collections.abc import Collection

from matins.errors import InvalidInput
from matins.executors.runners.protocol import AnyRunner, RunnerRequest

MAX_PROMPT_LENGTH = 4_000_000
MAX_SETTING_LENGTH = 500


def check_call(call: RunnerRequest, *, blank: bool = False) -> None:
    """Raise InvalidInput for a call that no tool accepts. `blank`: the prompt may be empty."""
    _check_prompt(call.prompt, blank)
    for name in ("model", "session", "new_session", "permission_mode", "workdir"):
        _check_setting(name, getattr(call, name))
    for tool in call.allowed_tools:
        _check_setting("allowed_tools", tool)
    for argument in call.extra_args:
        if "\x00" in argument or not _encodable(argument):
            message = f'"extra_args" has an argument with a NUL or a lone surrogate: {reprlib.repr(argument)}.'
            raise InvalidInput(message, value=argument, field="extra_args", hint="Remove it.")
    _check_numbers(call)
    if call.session is not None and call.new_session is not None:
        message = "A call cannot both continue a session and start one."
        raise InvalidInput(message, value=call.new_session, field="new_session", hint="Omit one of them.")


def check_tool_call(
    call: RunnerRequest, program: str, modes: Collection[str], taken: Collection[str], mode_hint: str | None = None
) -> None:
    """Raise InvalidInput for a call that a tool with these permission modes does not accept. Matins itself passes the
    options in `taken`."""
    check_call(call)
    mode = call.permission_mode
    if mode is not None and mode not in modes:
        close = difflib.get_close_matches(mode, modes, n=1)
        known = ", ".join(modes)
        raise InvalidInput(
            f'{program} has no permission mode "{mode}".',
            value=mode,
            field="permission_mode",
            allowed=known,
            hint=mode_hint or (f'Did you mean "{close[0]}"?' if close else f"Known: {known}."),
        )
    for argument in call.extra_args:
        name = argument.partition("=")[0]
        if name in taken or argument in ("-", "--"):  # these change the meaning of the others
            raise InvalidInput(
                f'Matins already passes "{name}" to {program}.',
                value=argument,
                field="extra_args",
                hint="Remove it. Model, session, permission mode and limits are settings.",
            )


def check_effort(runner: AnyRunner, effort: str) -> None:
    """Raise InvalidInput for an effort that the runner does not know."""
    known: tuple[str, ...] = getattr(runner, "efforts", ())  # most plug-ins have none
    if effort in known:
        return
    if not known:
        message, hint = f"{runner.name} has no setting for the effort.", "Omit it."
        raise InvalidInput(message, value=effort, field="effort", hint=hint)
    allowed = ", ".join(known)
    message, hint = f'{runner.name} has no effort "{effort}".', f"Known: {allowed}."
    raise InvalidInput(message, value=effort, field="effort", allowed=allowed, hint=hint)


def check_session_id(call: RunnerRequest, program: str) -> None:
    """Raise InvalidInput for the id of a new session that is no UUID."""
    if call.new_session is not None and not _is_uuid(call.new_session):
        message = f'The id of a new session of {program} must be a UUID, not "{call.new_session}".'
        raise InvalidInput(message, value=call.new_session, field="new_session", hint="Omit it, or use a UUID.")


def check_unused(field: str, value: object, program: str, what: str, hint: str) -> None:
    """Raise InvalidInput for a setting that the tool does not support."""
    if value is not None and value != ():
        raise InvalidInput(f"{program} {what}.", value=value, field=field, hint=hint)


def _check_prompt(prompt: str, blank: bool) -> None:
    if not blank and not prompt.strip():
        raise InvalidInput("The prompt is empty.", value=prompt, field="prompt", hint="Write what the agent should do.")
    if "\x00" in prompt:
        message = f"The prompt contains a NUL character at position {prompt.index(chr(0))}."
        hint = "Remove it. It often comes from a binary file that was read as text."
        raise InvalidInput(message, value=reprlib.repr(prompt), field="prompt", hint=hint)
    if not _encodable(prompt):
        message = "The prompt contains a lone surrogate, which UTF-8 cannot encode."
        raise InvalidInput(message, value=reprlib.repr(prompt), field="prompt", hint="Remove it.")
    if len(prompt) > MAX_PROMPT_LENGTH:
        message = f"The prompt has {len(prompt):,} characters. At most {MAX_PROMPT_LENGTH:,} are allowed."
        allowed = f"up to {MAX_PROMPT_LENGTH:,} characters"
        hint = "Put the long part into a file in the workdir, and name the file in the prompt."
        raise InvalidInput(message, value=reprlib.repr(prompt), field="prompt", allowed=allowed, hint=hint)


def _check_setting(name: str, value: str | None) -> None:
    if value is None:
        return
    if value.strip() and value.isprintable() and len(value) <= MAX_SETTING_LENGTH and not value.startswith("-"):
        return
    allowed = f"1 to {MAX_SETTING_LENGTH} printable characters and not begin with a dash"
    message = f'"{name}" must have {allowed}, not {reprlib.repr(value)}.'
    raise InvalidInput(message, value=value, field=name, allowed=allowed, hint=f'Check "{name}" of the agent.')


def _check_numbers(call: RunnerRequest) -> None:
    if call.max_turns is not None and call.max_turns < 1:
        message = f'"max_turns" must be at least 1, not {call.max_turns}.'
        raise InvalidInput(message, value=call.max_turns, field="max_turns", hint="Omit it for no limit.")
    cost = call.max_cost_usd
    if cost is not None and not (0 < cost < math.inf):
        message = f'"max_cost_usd" must be above 0, not {cost}.'
        raise InvalidInput(message, value=cost, field="max_cost_usd", hint="Omit it for no limit.")


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True

"""What the server answers: tools, resources and prompts for the principal that calls."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, cast

import orjson

from matins.errors import InvalidInput, MatinsError, NotAllowed
from matins.service.permissions import check_granted
from matins.surfaces.display import as_data
from matins.surfaces.mcp import json_rpc, texts
from matins.surfaces.mcp.answers import error_text, plain_answer, readable
from matins.surfaces.mcp.json_rpc import Json, ProtocolError, Request
from matins.surfaces.mcp.principal_calls import Document, PrincipalCalls
from matins.surfaces.mcp.sessions import Ask
from matins.surfaces.mcp.tool import Tool, checked
from matins.surfaces.mcp.tools import MAX_WAIT_S, shown_run
from matins.surfaces.mcp.toolsets import find, listed

log = logging.getLogger("matins")
ASKING = "answer_approval"
"""The tool for which a person is asked."""
InThread = Callable[..., Awaitable[Any]]
_LIST_TTL_MS = 60_000
_FORM = {
    "type": "object",
    "properties": {"confirm": {"type": "boolean", "title": "I have read it, and decide so"}},
    "required": ["confirm"],
}
_LOOK_S = 0.5


class ToolServer:
    """The methods of MCP. `in_thread` runs calls beside the event loop."""

    def __init__(self, in_thread: InThread) -> None:
        self._in_thread = in_thread

    async def answer(
        self, message: Json, request: Request, calls: PrincipalCalls, toolset: str, ask: Ask | None = None
    ) -> Json | None:
        """The response to a message; None for a notification. `ask` shows a form to the person meanwhile."""
        if "id" not in message:
            return None
        return json_rpc.response(request, await self._result(request, calls, toolset, ask))

    async def _result(self, request: Request, calls: PrincipalCalls, toolset: str, ask: Ask | None) -> Json:
        match request.method:
            case "server/discover" if request.is_modern:
                return json_rpc.discovered(texts.INSTRUCTIONS)
            case "initialize" if not request.is_modern:
                return json_rpc.initialized(request.params, texts.INSTRUCTIONS)
            case "ping" if not request.is_modern:
                return {}
            case "tools/list":
                tools = [_described(tool) for tool in listed(calls.principal, toolset)]
                return {"tools": tools, **json_rpc.cached(_LIST_TTL_MS)}
            case "tools/call":
                return await self._call_tool(request, calls, toolset, ask)
            case "resources/list":
                return {"resources": [texts.PHRASES_RESOURCE], **json_rpc.cached()}
            case "resources/templates/list":
                return {"resourceTemplates": _templates(), **json_rpc.cached()}
            case "resources/read":
                return await self._read_resource(request, calls)
            case "prompts/list":
                return {"prompts": _prompts(), **json_rpc.cached()}
            case "prompts/get":
                return _prompt(request)
            case _:
                raise ProtocolError(json_rpc.METHOD_NOT_FOUND, f'There is no method "{request.method}".')

    async def _call_tool(self, request: Request, calls: PrincipalCalls, toolset: str, ask: Ask | None) -> Json:
        name, arguments = _text(request, "name"), _object(request, "arguments")
        tool = find(toolset, name)
        if tool is None:
            known = ", ".join(one.name for one in listed(calls.principal, toolset))
            return _failed(f'There is no tool "{readable(name)}". There are: {known}. [not_found, name]')
        try:
            check_granted(calls.principal, tool.right, f"call {tool.name}")
            given = checked(tool, arguments)
            if tool.name == ASKING and (asked := await self._form(request, calls, given, ask)) is not None:
                return asked
            answer = await self._in_thread(tool.call, calls, given)
            if tool.name == "run_schedule" and given.get("wait_seconds") and "run" in answer:
                answer = await self._ended(calls, answer, given["wait_seconds"])
        except MatinsError as error:
            return _failed(error_text(error))
        except Exception:
            log.exception("the tool %s failed", tool.name)
            return _failed("Matins failed. Tell the person to look into its log. [internal]")
        return _succeeded({**answer, "note": calls.note} if calls.note else answer)

    async def _ended(self, calls: PrincipalCalls, answer: Document, seconds: int) -> Document:
        """The run once it is over, or as it is after some seconds. No thread waits meanwhile."""
        looks = round(min(seconds, MAX_WAIT_S) / _LOOK_S)
        while True:
            run = await self._in_thread(lambda: calls.call("runs.get", run_id=answer["run"]["run"]))
            settled = not run["live"] or run["state"] == "held" or run["status"] == "awaiting_approval"
            if settled or looks <= 0:
                return shown_run(run)
            looks -= 1
            await asyncio.sleep(_LOOK_S)

    async def _form(self, request: Request, calls: PrincipalCalls, given: Document, ask: Ask | None) -> Json | None:
        """The form that a person must answer first; None once it is accepted. Only the person's client fills it in."""
        found = await self._in_thread(lambda: calls.call("approvals.get", approval_id=str(given["approval"])))
        if found["digest"] != given["digest"]:
            message = f"Approval {found['id']} has changed since it was read."
            raise InvalidInput(message, field="digest", hint="Call list_approvals, and show the person what it is now.")
        link = calls.approval(found)["url"]
        if not found["approvers"] and calls.principal.role != "owner":
            message = f"Only the owner can answer approval {found['id']}. Give the owner this link: {link}"
            raise NotAllowed(message, value=calls.principal.name, field="approval")
        if found["approvers"] and calls.principal.name not in found["approvers"]:
            message = f"Only {', '.join(found['approvers'])} can answer approval {found['id']}. The link: {link}"
            raise NotAllowed(message, value=calls.principal.name, field="approval")
        answers: Any = None
        if ask is not None:
            answers = {"decision": await ask(_shown_form(found, given["decision"]))}
        elif not request.shows_forms:
            return _failed(
                f"This client cannot ask the person. Give the person this link: {link} [not_allowed, approval]"
            )
        else:
            answers = request.params.get("inputResponses")
            if not answers or request.params.get("requestState") != found["digest"]:
                return _asked(found, given["decision"])
        if _is_confirmed(answers):
            return None
        return _failed(f"The person did not confirm, and nothing is decided. The link: {link} [not_allowed, approval]")

    async def _read_resource(self, request: Request, calls: PrincipalCalls) -> Json:
        uri = _text(request, "uri")
        try:
            text = await self._in_thread(texts.read_resource, calls, uri)
        except MatinsError as error:
            raise ProtocolError(json_rpc.INVALID_PARAMS, error_text(error)) from None
        return {"contents": [{"uri": uri, "text": text}], **json_rpc.cached()}


def _text(request: Request, name: str) -> str:
    value = request.params.get(name)
    if not isinstance(value, str):
        raise ProtocolError(json_rpc.INVALID_PARAMS, f'"{name}" must be a text.')
    return value


def _object(request: Request, name: str) -> Json:
    value = request.params.get(name)
    if not isinstance(value, dict | None):
        raise ProtocolError(json_rpc.INVALID_PARAMS, f'"{name}" must be an object.')
    return cast("Json", value or {})


def _described(tool: Tool) -> Json:
    return {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": tool.schema,
        "annotations": tool.annotations,
    }


def _templates() -> list[Json]:
    return [
        {"name": uri.removeprefix("matins://"), "uriTemplate": uri, "description": text}
        for uri, text in texts.TEMPLATES.items()
    ]


def _prompts() -> list[Json]:
    return [
        {
            "name": name,
            "description": prompt.description,
            "arguments": [
                {"name": one, "description": text, "required": True} for one, text in prompt.arguments.items()
            ],
        }
        for name, prompt in texts.PROMPTS.items()
    ]


def _prompt(request: Request) -> Json:
    name, given = _text(request, "name"), _object(request, "arguments")
    prompt = texts.PROMPTS.get(name)
    if prompt is None:
        raise ProtocolError(json_rpc.INVALID_PARAMS, f'There is no prompt "{name}".')
    missing = [one for one in prompt.arguments if not isinstance(given.get(one), str)]
    if missing:
        raise ProtocolError(json_rpc.INVALID_PARAMS, f"The prompt needs: {', '.join(missing)}.")
    text = prompt.text
    for one in prompt.arguments:
        text = text.replace(f"{{{one}}}", given[one])
    message = {"role": "user", "content": {"type": "text", "text": text}}
    return {"description": prompt.description, "messages": [message]}


def _succeeded(answer: Document) -> Json:
    """Everything in both forms: some clients give models only the structured one, others only the text."""
    plain = plain_answer(answer)
    text = orjson.dumps(plain).decode()
    return {"content": [{"type": "text", "text": text}], "structuredContent": plain, "isError": False}


def _failed(text: str) -> Json:
    return {"content": [{"type": "text", "text": text}], "isError": True}


def _is_confirmed(answers: Any) -> bool:
    match answers:
        case {"decision": {"action": "accept", "content": {"confirm": True}}}:
            return True
        case _:
            return False


def _asked(found: Document, decision: str) -> Json:
    asked = {"decision": {"method": "elicitation/create", "params": _shown_form(found, decision)}}
    return {"resultType": "input_required", "inputRequests": asked, "requestState": found["digest"]}


def _shown_form(found: Document, decision: str) -> Json:
    request = as_data(orjson.dumps(found["request"], option=orjson.OPT_INDENT_2, default=str).decode())
    title = f"{decision.capitalize()} request {found['id']} of {as_data(found['requested_by'])}?"
    message = f"{title}\n{request}\nDigest {found['digest']}"
    return {"mode": "form", "message": message, "requestedSchema": _FORM}

"""The server of the SDK: tools, resources and prompts for whoever calls. Importing this module takes a second."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
import orjson
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from matins._version import __version__
from matins.errors import InvalidInput, MatinsError
from matins.service.permissions import check_granted
from matins.surfaces.mcp import texts
from matins.surfaces.mcp.answers import error_text
from matins.surfaces.mcp.desk import Desk, Document
from matins.surfaces.mcp.tool import Tool, checked
from matins.surfaces.mcp.tools import MAX_WAIT_S, shown_run
from matins.surfaces.mcp.toolsets import find, listed

log = logging.getLogger("matins")
InThread = Callable[..., Awaitable[Any]]
DeskOf = Callable[[Any], tuple[Desk, str]]
"""The desk and the toolset of a request."""
_LIST_TTL_MS = 60_000
_FORM = {
    "type": "object",
    "properties": {"confirm": {"type": "boolean", "title": "I have read it, and decide so"}},
    "required": ["confirm"],
}
_LOOK_S = 0.5


class ToolServer:
    """The handlers. `desk_of` reads who calls from the request; `in_thread` runs calls beside the event loop."""

    def __init__(self, desk_of: DeskOf, in_thread: InThread) -> None:
        self._desk_of = desk_of
        self._in_thread = in_thread
        self.server: Server[Any] = Server(
            "matins",
            version=__version__,
            title="Matins",
            instructions=texts.INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
        )

    # -- tools

    async def _list_tools(self, ctx: Any, params: Any) -> types.ListToolsResult:
        desk, toolset = self._desk_of(ctx)
        tools = [_described(tool) for tool in listed(desk.principal, toolset)]
        return types.ListToolsResult(tools=tools, ttl_ms=_LIST_TTL_MS, cache_scope="private")

    async def _call_tool(self, ctx: Any, params: types.CallToolRequestParams) -> Any:
        desk, toolset = self._desk_of(ctx)
        tool = find(toolset, params.name)
        if tool is None:
            known = ", ".join(one.name for one in listed(desk.principal, toolset))
            return _failed(f'There is no tool "{params.name}". There are: {known}. [not_found, name]')
        try:
            check_granted(desk.principal, tool.right, f"call {tool.name}")
            given = checked(tool, params.arguments)
            if tool.name == "answer_approval" and (asked := await self._form(ctx, desk, params, given)) is not None:
                return asked
            answer = await self._in_thread(tool.call, desk, given)
            if tool.name == "run_schedule" and given.get("wait_seconds") and "run" in answer:
                answer = await self._ended(desk, answer, given["wait_seconds"])
        except MatinsError as error:
            return _failed(error_text(error))
        except Exception:
            log.exception("the tool %s failed", tool.name)
            return _failed("Matins failed. Tell the person to look into its log. [internal]")
        return _succeeded({**answer, "note": desk.note} if desk.note else answer)

    async def _ended(self, desk: Desk, answer: Document, seconds: int) -> Document:
        """The run once it is over, or as it is after some seconds. No thread waits meanwhile."""
        looks = round(min(seconds, MAX_WAIT_S) / _LOOK_S)
        while True:
            run = await self._in_thread(lambda: desk.call("runs.get", run_id=answer["run"]["run"]))
            settled = not run["live"] or run["state"] == "held" or run["status"] == "awaiting_approval"
            if settled or looks <= 0:
                return shown_run(run)
            looks -= 1
            await asyncio.sleep(_LOOK_S)

    async def _form(self, ctx: Any, desk: Desk, params: types.CallToolRequestParams, given: Document) -> Any:
        """The form that a person must answer first; None once it is accepted. Only the person's client fills it in."""
        found = await self._in_thread(lambda: desk.call("approvals.get", approval_id=given["approval"]))
        if found["digest"] != given["digest"]:
            message = f"Approval {found['id']} has changed since it was read."
            raise InvalidInput(message, field="digest", hint="Call list_approvals, and show the person what it is now.")
        link = desk.approval(found)["url"]
        if not _shows_forms(ctx):
            return _failed(
                f"This client cannot ask the person. Give the person this link: {link} [not_allowed, approval]"
            )
        answer = (params.input_responses or {}).get("decision")
        if answer is None or params.request_state != found["digest"]:
            return _asked(found, given["decision"])
        if _is_confirmed(answer):
            return None
        return _failed(f"The person did not confirm, and nothing is decided. The link: {link} [not_allowed, approval]")

    # -- resources and prompts

    async def _list_resources(self, ctx: Any, params: Any) -> types.ListResourcesResult:
        phrases = types.Resource(name="phrases", uri=texts.PHRASES, description="What a when may say, as a grammar.")
        return types.ListResourcesResult(resources=[phrases])

    async def _list_templates(self, ctx: Any, params: Any) -> types.ListResourceTemplatesResult:
        found = [
            types.ResourceTemplate(name=uri.removeprefix("matins://"), uri_template=uri, description=text)
            for uri, text in texts.TEMPLATES.items()
        ]
        return types.ListResourceTemplatesResult(resource_templates=found)

    async def _read_resource(self, ctx: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        desk, _ = self._desk_of(ctx)
        try:
            text = await self._in_thread(texts.read_resource, desk, str(params.uri))
        except MatinsError as error:
            raise MCPError(types.INVALID_PARAMS, error_text(error)) from None
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=params.uri, text=text)])

    async def _list_prompts(self, ctx: Any, params: Any) -> types.ListPromptsResult:
        found = [
            types.Prompt(
                name=name,
                description=prompt.description,
                arguments=[
                    types.PromptArgument(name=one, description=text, required=True)
                    for one, text in prompt.arguments.items()
                ],
            )
            for name, prompt in texts.PROMPTS.items()
        ]
        return types.ListPromptsResult(prompts=found)

    async def _get_prompt(self, ctx: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        prompt, given = texts.PROMPTS.get(params.name), params.arguments or {}
        if prompt is None:
            raise MCPError(types.INVALID_PARAMS, f'There is no prompt "{params.name}".')
        missing = [name for name in prompt.arguments if name not in given]
        if missing:
            raise MCPError(types.INVALID_PARAMS, f"The prompt needs: {', '.join(missing)}.")
        text = prompt.text
        for name in prompt.arguments:
            text = text.replace(f"{{{name}}}", given[name])
        message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
        return types.GetPromptResult(description=prompt.description, messages=[message])


def _described(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.schema,
        annotations=types.ToolAnnotations.model_validate(tool.annotations),
    )


def _succeeded(answer: Document) -> types.CallToolResult:
    """Everything in both forms: some clients give models only the structured one, others only the text."""
    plain = orjson.loads(orjson.dumps(answer, default=str))
    text = types.TextContent(type="text", text=orjson.dumps(plain).decode())
    return types.CallToolResult(content=[text], structured_content=plain)


def _failed(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)


def _shows_forms(ctx: Any) -> bool:
    capabilities = ctx.session.client_capabilities
    modern = ctx.protocol_version >= "2026-07-28"
    return modern and capabilities is not None and capabilities.elicitation is not None


def _is_confirmed(answer: Any) -> bool:
    content: Any = getattr(answer, "content", None) or {}
    return getattr(answer, "action", None) == "accept" and content.get("confirm") is True


def _asked(found: Document, decision: str) -> types.InputRequiredResult:
    request = orjson.dumps(found["request"], option=orjson.OPT_INDENT_2, default=str).decode()
    title = f"{decision.capitalize()} request {found['id']} of {found['requested_by']}?"
    message = f"{title}\n{request}\nDigest {found['digest']}"
    form = types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=_FORM))
    return types.InputRequiredResult(input_requests={"decision": form}, request_state=found["digest"])

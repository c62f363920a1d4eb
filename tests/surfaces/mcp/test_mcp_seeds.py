"""The tools of Polpo and Cortex, by their own names."""

from __future__ import annotations

from http_server import HttpServer
from mcp.client import Client
from mcp_client import over_http, use


def test_p1_polpos_four_tools(server: HttpServer) -> None:
    """P1 P10: once by an instant or the next match, again and again with recurring; removed, it is a draft again"""
    server.matins.missions.make("m1", steps=[{"title": "Build", "job": "work"}])

    async def work(client: Client) -> None:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names == ["create_schedule", "list_schedules", "update_schedule", "delete_schedule"]
        made = await use(client, "create_schedule", missionId="m1", expression="0 9 * * *", recurring=True)
        assert (made.found["missionId"], made.found["recurring"], made.found["enabled"]) == ("m1", True, True)
        refused = await use(
            client, "create_schedule", missionId="m1", expression="2100-01-01T09:00:00Z", recurring=True
        )
        assert refused.failed
        paused = await use(client, "update_schedule", missionId="m1", enabled=False)
        assert paused.found["enabled"] is False
        assert (await use(client, "update_schedule", missionId="m1", enabled=True)).found["enabled"] is True
        listing = await use(client, "list_schedules")
        assert [one["missionId"] for one in listing.found["schedules"]] == ["m1"]
        assert (await use(client, "delete_schedule", missionId="m1")).found["deleted"] is True
        assert (await use(client, "list_schedules")).found["schedules"] == []

    over_http(server.url + "/mcp/polpo", server.new_token("owner", "o"), work)
    server.matins.missions.delete("m1")


def test_c13_cortexs_seven_tools(server: HttpServer) -> None:
    """C13: by an id of eight digits; the context has its seven fields, null outside a run"""

    async def work(client: Client) -> None:
        assert len((await client.list_tools()).tools) == 7
        made = await use(client, "cortex_schedule_add", type="daily", message="Look", time="09:00", profile="scout")
        task = made.found["id"]
        assert len(task) == 8
        assert task in [one["id"] for one in (await use(client, "cortex_schedule_list")).found["tasks"]]
        assert (await use(client, "cortex_schedule_get", id=task)).found["message"] == "Look"
        assert (await use(client, "cortex_schedule_pause", id=task)).found["enabled"] is False
        assert (await use(client, "cortex_schedule_resume", id=task)).found["enabled"] is True
        assert (await use(client, "cortex_schedule_remove", id=task)).found["removed"] is True
        missing = await use(client, "cortex_schedule_add", type="interval", message="Look")
        assert '"interval" is missing.' in missing.text
        context = (await use(client, "cortex_context")).found
        fields = ["channel", "sessionId", "sessionName", "threadId", "profile", "project", "backend"]
        assert list(context)[1:] == fields
        assert set(context.values()) == {None, "This is no run."}

    over_http(server.url + "/mcp/cortex", server.new_token("owner", "o"), work)

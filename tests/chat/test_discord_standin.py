"""The stand-in of Discord is judged by the client that bots use: `discord.py`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import discord
import pytest
import yarl

from matins.chat.discord.payloads import offered
from standins.discord import BOT, CHANNEL, TOKEN, Discord

ADA = "100000000000000001"


class Client(discord.Client):
    """It keeps what it hears."""

    def __init__(self) -> None:
        super().__init__(intents=discord.Intents(guilds=True, guild_messages=True, message_content=True))
        self.heard: list[Any] = []
        self.changed = asyncio.Condition()

    async def _keep(self, thing: Any) -> None:
        async with self.changed:
            self.heard.append(thing)
            self.changed.notify_all()

    async def on_message(self, message: discord.Message) -> None:
        await self._keep(message)

    async def on_interaction(self, interaction: discord.Interaction[Any]) -> None:
        await self._keep(interaction)

    async def next(self) -> Any:
        async with self.changed:
            await asyncio.wait_for(self.changed.wait_for(lambda: self.heard), 20)
            return self.heard.pop(0)


@pytest.fixture
def standin(monkeypatch: pytest.MonkeyPatch) -> Any:
    with Discord() as made:
        monkeypatch.setattr(discord.http.Route, "BASE", made.url)
        monkeypatch.setattr(discord.gateway.DiscordWebSocket, "DEFAULT_GATEWAY", yarl.URL(made.gateway_url))
        yield made


def use(work: Callable[[Client], Any], token: str = TOKEN) -> None:
    async def run() -> None:
        async with Client() as client:
            await client.login(token)
            session = asyncio.create_task(client.connect())
            ready = asyncio.create_task(client.wait_until_ready())
            await asyncio.wait({session, ready}, return_when=asyncio.FIRST_COMPLETED)
            if session.done():
                session.result()
            await work(client)
            await client.close()
            await session

    asyncio.run(run())


def test_what_the_client_posts_and_hears(standin: Discord) -> None:
    async def work(client: Client) -> None:
        assert client.user is not None
        assert str(client.user.id) == BOT
        channel: Any = client.get_channel(int(CHANNEL))
        view = discord.ui.View(timeout=None)
        view.add_item(discord.ui.Button(label="Approve", custom_id="approve:1:x", style=discord.ButtonStyle.primary))
        sent = await channel.send("**a** \\*b", view=view, allowed_mentions=discord.AllowedMentions.none())
        assert sent.content == "**a** \\*b"
        (call,) = standin.said()
        standin.click(call, "Approve", ADA)
        click = await client.next()
        assert (click.data["custom_id"], str(click.user.id), click.message.id) == ("approve:1:x", ADA, sent.id)
        await click.response.defer()
        with pytest.raises(discord.HTTPException, match="already been acknowledged"):
            await discord.InteractionResponse(click).defer()
        await click.followup.send("Only you", ephemeral=True)
        assert standin.said()[-1].private
        edited = await sent.edit(content="b", view=None)
        assert (edited.content, edited.components) == ("b", [])
        standin.reply("Is it?", ADA, call)
        reply = await client.next()
        assert (reply.reference.message_id, reply.content, reply.guild.name) == (sent.id, "Is it?", "Garden")
        thread = await sent.create_thread(name="More")
        assert (thread.id, thread.parent_id) == (sent.id, channel.id)
        await thread.send("in it")
        assert standin.said()[-1].channel == str(sent.id)
        tree = discord.app_commands.CommandTree(client)
        group = discord.app_commands.Group(name="matins", description="Schedules of agents.")

        @group.command(name="why", description="Why")
        async def why(interaction: discord.Interaction[Any], name: str) -> None:
            await interaction.response.defer(ephemeral=True)
            await interaction.edit_original_response(content=f"because of {name}")

        tree.add_command(group)
        await tree.sync()
        standin.command("why", ADA, name="nightly")
        await asyncio.to_thread(standin.wait, lambda: standin.said()[-1].text == "because of nightly")
        assert standin.said()[-1].private
        with pytest.raises(discord.HTTPException, match="2000"):
            await channel.send("x" * 2_001)
        file: Any = discord.File(__file__, filename="a.py")
        assert (await channel.send(file=file)).attachments[0].filename == "a.py"
        first = await channel.send("once", nonce="n1")
        assert first.id != (await channel.send("once")).id

    use(work)
    assert offered()["options"][0]["name"] == "list"


def test_a_session_goes_on_after_the_connection_was_cut(standin: Discord) -> None:
    async def work(client: Client) -> None:
        standin.say("one", ADA)
        assert (await client.next()).content == "one"
        await asyncio.to_thread(standin.cut_off)
        standin.say("two", ADA)
        assert (await client.next()).content == "two"
        await asyncio.to_thread(standin.wait, lambda: standin.resumed)
        assert standin.sessions == 1

    use(work)


def test_it_refuses_what_discord_refuses(standin: Discord) -> None:
    async def work(client: Client) -> None:
        raise AssertionError("connected")

    with pytest.raises(discord.LoginFailure):
        use(work, "MTA.wrong.x")
    standin.texts_allowed = False
    with pytest.raises(discord.PrivilegedIntentsRequired):
        use(work)
    assert threading.active_count() < 20

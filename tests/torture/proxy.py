"""A network before PostgreSQL that delays, stands still, and is cut, also between a commit and its answer."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

MODES = ("well", "delayed", "still", "cut", "cut_after_commit")
_COMMITTED = b"COMMIT\x00"
"""The end of a commit's answer."""
_CHUNK = 65_536


class Network:
    """The proxy in a process of its own, and the weather there."""

    def __init__(self, server: Path, seed: str) -> None:
        command = [sys.executable, __file__, str(server), seed]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout
        self.port = int(self._from.readline())
        self.seen: Counter[str] = Counter()

    def turn(self, mode: str) -> None:
        assert mode in MODES
        self._ask(mode)  # it holds from now on
        self.seen[mode] += 1

    def lost_answers(self) -> int:
        """How many answers to a commit were lost so far."""
        return self._ask("lost")

    def _ask(self, word: str) -> int:
        self._to.write(f"{word}\n")
        self._to.flush()
        return int(self._from.readline())

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


class _Proxy:
    def __init__(self, server: str, rng: Random) -> None:
        self._server = server
        self._rng = rng
        self._mode = "well"
        self._lost = 0
        self._well = asyncio.Event()
        self._well.set()
        self._links: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        listening = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        _say(str(listening.sockets[0].getsockname()[1]))
        while word := (await asyncio.to_thread(sys.stdin.readline)).strip():
            if word in MODES:
                self._turn(word)
            _say(str(self._lost))

    def _turn(self, mode: str) -> None:
        self._mode = mode
        if mode == "still":
            self._well.clear()
        else:
            self._well.set()
        if mode == "cut":
            for link in self._rng.sample(sorted(self._links, key=id), len(self._links) // 2 + 1 if self._links else 0):
                link.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = asyncio.current_task()
        assert link is not None
        self._links.add(link)
        writers = [writer]
        try:
            from_server, to_server = await asyncio.open_unix_connection(self._server)
            writers.append(to_server)
            there = asyncio.create_task(self._pump(reader, to_server))
            back = asyncio.create_task(self._pump(from_server, writer, answers=True))
            await asyncio.wait((there, back), return_when=asyncio.FIRST_COMPLETED)
            there.cancel()
            back.cancel()
        except (OSError, asyncio.CancelledError):
            pass  # the server is restarting, or the link is cut
        finally:
            self._links.discard(link)
            for one in writers:
                one.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool = False) -> None:
        """Forward until one side closes, or an answer is to be lost."""
        try:
            while chunk := await reader.read(_CHUNK):
                await self._well.wait()
                if self._mode == "delayed":
                    await asyncio.sleep(self._rng.uniform(0, 0.06))
                if answers and self._mode == "cut_after_commit" and _COMMITTED in chunk and self._rng.random() < 0.3:
                    self._lost += 1
                    return
                writer.write(chunk)
                await writer.drain()
        except OSError:
            return


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_Proxy(sys.argv[1], Random(sys.argv[2])).run())

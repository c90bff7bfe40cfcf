"""A tunnel from a port of this host to another address: `python -m benchmarks.tunnel PORT HOST PORT`.

A tunnel that is stopped (SIGSTOP) is a network that drops everything and says nothing."""

from __future__ import annotations

import asyncio
import contextlib
import sys


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(1 << 16):
            sink.write(data)
            await sink.drain()
    sink.close()


async def _serve(port: int, host: str, target: int) -> None:
    async def joined(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, out = await asyncio.wait_for(asyncio.open_connection(host, target), 2.0)
        except (OSError, TimeoutError):
            writer.close()
            return
        await asyncio.gather(_copy(reader, out), _copy(there, writer))

    server = await asyncio.start_server(joined, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), sys.argv[2], int(sys.argv[3])))

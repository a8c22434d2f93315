"""A live database without Spark and its console in a process of their own: python -m tests.http.console_child DB PORT.

It prints the address. A line on its input restarts the server: `stop`, then `start`. It ends when its input is closed.
"""

from __future__ import annotations

import asyncio
import sys

from tests.live import LiveDatabase
from tidemill.serve.http.server import HttpServer
from tidemill.serve.postgres.services import Services


async def serve(db: LiveDatabase, port: int) -> None:
    server: HttpServer | None = None
    word = "start"
    while word:
        if word == "stop" and server is not None:
            await server.stop()
            server = None
            print("stopped", flush=True)
        elif word == "start":
            server = HttpServer(Services(db, "lot"))
            port = await server.start("127.0.0.1", port)
            print(server.address, flush=True)
        word = (await asyncio.to_thread(sys.stdin.readline)).strip()
    if server is not None:
        await server.stop()


def main() -> None:
    folder, port = sys.argv[1:]
    with LiveDatabase(folder) as db:
        db.start()
        asyncio.run(serve(db, int(port)))


if __name__ == "__main__":
    main()

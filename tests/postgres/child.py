"""A live database without Spark and its server, in a process of its own: python -m tests.postgres.child DB SETUP.sql.

Drivers that hold Python's lock while they wait cannot talk to a server in their own process.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from tests.live import LiveDatabase
from tidemill.serve.postgres.server import PostgresServer
from tidemill.serve.postgres.services import Limits, Services


async def serve(db: LiveDatabase, limits: Limits, port: int) -> None:
    server = PostgresServer(Services(db, "lot", None, limits))
    print(await server.start("127.0.0.1", port), flush=True)
    await asyncio.to_thread(sys.stdin.read)  # until the test closes it
    await server.stop()


def main() -> None:
    folder, setup, limits, port = sys.argv[1:]
    with LiveDatabase(folder) as db:
        if not db.catalog.entries:
            db.execute(Path(setup).read_text(encoding="utf-8"))
        db.start()
        asyncio.run(serve(db, Limits(**json.loads(limits)), int(port)))


if __name__ == "__main__":
    main()

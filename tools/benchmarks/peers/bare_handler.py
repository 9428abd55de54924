"""The floor of an API server: uvicorn alone, which answers each request with the same bytes.

In: one line {"port": ..., "file": ..., "headers": {...}}. Out: the line "ready". It ends when its input ends.
"""

import asyncio
import json
import sys
import threading
from pathlib import Path
from typing import Any

import uvicorn


def main() -> None:
    order = json.loads(sys.stdin.readline())
    body = Path(order["file"]).read_bytes()
    headers = [(name.encode(), value.encode()) for name, value in order["headers"].items()]

    async def handler(scope: Any, receive: Any, send: Any) -> None:  # noqa: ARG001
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    config = uvicorn.Config(
        handler, port=order["port"], http="h11", loop="asyncio", lifespan="off", log_config=None, access_log=False
    )
    server = uvicorn.Server(config)
    threading.Thread(target=end_with_input, args=(server,), daemon=True).start()
    asyncio.run(served(server))


async def served(server: uvicorn.Server) -> None:
    serving = asyncio.ensure_future(server.serve())
    while not server.started and not serving.done():
        await asyncio.sleep(0.01)
    print("ready", flush=True)
    await serving


def end_with_input(server: uvicorn.Server) -> None:
    sys.stdin.read()
    server.should_exit = True


if __name__ == "__main__":
    main()

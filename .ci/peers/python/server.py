"""Serves the tools of the comparison with the Python SDK."""

import asyncio
import os
from typing import Annotated

from mcp.server import MCPServer
from pydantic import BaseModel, Field

MANY = 10_000  # as in package tools
server = MCPServer("python", version="1.0.0", log_level="ERROR")
sleepers = 0


class Sum(BaseModel):
    sum: Annotated[int, Field(description="the sum of a and b")]


async def echo(text: Annotated[str, Field(description="what to say")]) -> str:
    return text


async def add(a: Annotated[int, Field(description="a number")], b: Annotated[int, Field(description="another number")]) -> Sum:
    return Sum(sum=a + b)


async def sleep(ms: Annotated[int, Field(description="milliseconds; 0 means until the server ends")] = 0) -> str:
    global sleepers
    sleepers += 1
    if sleepers == MANY:
        os.write(2, b"asleep\n")
    try:
        await (asyncio.sleep(ms / 1000) if ms else asyncio.Event().wait())
    finally:
        sleepers -= 1
    return "awake"


server.tool(description="Returns its text.", structured_output=False)(echo)
server.tool(description="Adds two numbers.")(add)
server.tool(description="Sleeps.", structured_output=False)(sleep)
for i in range(int(os.environ.get("PEERS_TOOLS", 0))):
    server.tool(name=f"tool{i}", description="Returns its text.", structured_output=False)(echo)
server.run()

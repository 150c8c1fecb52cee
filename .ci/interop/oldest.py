"""The oldest Python client: python oldest.py COMMAND [ARG...]"""

import asyncio
import json
import sys

from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from pydantic import AnyUrl

command, *args = sys.argv[1:]


class Steps:
    def __init__(self, client):
        self.c = client
        self.received = []

    async def receive(self):
        """Collects the notifications. The library reads no message until the notification before it is received here."""
        async for message in self.c.incoming_messages:
            self.received.append(message)

    async def step_connect(self):
        opened = await self.c.initialize()
        assert (opened.protocolVersion, opened.serverInfo.name) == ("2024-11-05", "members")

    async def step_lists(self):
        self.listed = (await self.c.list_tools()).tools
        assert [t.name for t in self.listed] == ["weather", "note"]
        assert [str(r.uri) for r in (await self.c.list_resources()).resources] == ["test://note"]
        assert [p.name for p in (await self.c.list_prompts()).prompts] == ["forecast"]

    async def step_call(self):
        # The library's call_tool takes no progress token.
        params = types.CallToolRequestParams(name="weather", arguments={"city": "Rome"}, **{"_meta": {"progressToken": "p"}})
        request = types.ClientRequest(types.CallToolRequest(method="tools/call", params=params))
        self.called = await self.c.send_request(request, types.CallToolResult)
        assert json.loads(self.called.content[0].text) == {"city": "Rome", "celsius": 21}
        assert (await self.c.call_tool("note")).content[0].text == "a note"
        assert [m.root.params.progress for m in self.received] == [1], self.received

    async def step_resources(self):
        assert (await self.c.read_resource(AnyUrl("test://notes/7"))).contents[0].text == "a note"

    async def step_prompts(self):
        got = await self.c.get_prompt("forecast", {"city": "Rome"})
        assert got.messages[0].content.text == "Will it rain in Rome?"

    async def step_members(self):
        # The steps above prove something only if the client received members that it does not know.
        for member in ["title", "icons", "outputSchema", "_meta"]:
            assert member in self.listed[0].model_extra, member
        assert self.called.model_extra["structuredContent"] == {"city": "Rome", "celsius": 21}


async def main():
    async with stdio_client(StdioServerParameters(command=command, args=args)) as (r, w), ClientSession(r, w) as client:
        steps = Steps(client)
        receiver = asyncio.create_task(steps.receive())
        for step in [s for s in vars(Steps) if s.startswith("step_")]:
            name = step.removeprefix("step_")
            try:
                await getattr(steps, step)()
                print(f"ok {name}", flush=True)
            except Exception as e:
                print(f"FAILED {name}: {e!r}".replace("\n", " "), flush=True)
    receiver.cancel()
    print("ok close")


asyncio.run(main())

"""FastMCP's client, which supports tasks: python tasks.py legacy|auto COMMAND [ARG...], or a URL in place of COMMAND

Only in revision 2026-07-28, and over stdio, is a call a task. Otherwise the same calls have ordinary results.
"""

import asyncio
import os
import sys

from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport
from fastmcp_tasks import call_tool_task

mode, command, *args = sys.argv[1:]
http = command.startswith("http:")
has_tasks = mode == "auto" and not http
asked = []
action = "accept"


async def elicit(message, response_type, params, context):
    asked.append(message)
    if action != "accept":
        return ElicitResult(action=action)
    answers = {"name": "Ann", "ok": True, "confirm": True}
    return {k: answers[k] for k in params.requested_schema["properties"]}


def connect():
    return Client(command if http else StdioTransport(command, args, keep_alive=False), mode=mode, elicitation_handler=elicit)


class Steps:
    def __init__(self, client):
        self.c = client

    async def start(self, name, arguments=None):
        return await call_tool_task(self.c, name, arguments)

    async def text(self, name, arguments=None):
        """Calls a tool, which must become a task if there are tasks, and returns the text of its result."""
        result = await (await self.start(name, arguments) if has_tasks else self.c.call_tool(name, arguments))
        return result.content[0].text

    async def fails(self, call, *words):
        try:
            answer = await call
        except Exception as e:
            assert all(w in str(e) for w in words), e
        else:
            raise AssertionError(f"did not fail: {answer}")

    async def step_call(self):
        """The caller of call_tool does not notice whether the call was a task."""
        assert (await self.c.call_tool("slow_compute", {"seconds": 0.3})).content[0].text == "computed"

    async def step_state(self):
        if not has_tasks:
            return await self.fails(self.start("slow_compute", {"seconds": 0.3}), "did not run as a task")
        task = await self.start("slow_compute", {"seconds": 0.3})
        state = await task.status()
        assert (state.status, state.status_message) == ("working", "computing"), state
        assert (await task.result()).content[0].text == "computed"

    async def step_elicitation(self):
        global action
        assert await self.text("confirm_delete", {"filename": "a.txt"}) == "deleted a.txt"
        assert asked == ["Delete a.txt?"], asked
        action = "decline"
        await self.fails(self.text("confirm_delete", {"filename": "a.txt"}), "declined")
        action = "accept"
        assert await self.text("multi_input") == "Ann, true"
        assert set(asked[2:]) == {"What is your name?", "Please confirm"}, asked
        # This tool asks before its call becomes a task. Only call_tool answers that; call_tool_task raises an error.
        assert (await self.c.call_tool("test_tool_with_task")).content[0].text == "Hello, Ann!"

    async def step_errors(self):
        await self.fails(self.text("failing_job"), "the job has failed" if has_tasks else "needs a client that supports tasks")
        await self.fails(self.text("protocol_error_job"), "the job has failed")

    async def step_cancelled_task(self):
        if not has_tasks:
            return "there are no tasks"
        task = await self.start("slow_compute")
        await task.cancel()
        assert (await task.wait(timeout=20)).status == "cancelled"
        assert await self.text("slow_compute", {"seconds": 0.3}) == "computed"

    async def step_together(self):
        got = await asyncio.gather(*(self.text("slow_compute", {"seconds": 0.3}) for _ in range(50)))
        assert got == ["computed"] * 50, got


async def main():
    async with connect() as client:
        want = "2026-07-28" if mode == "auto" else "2025-11-25"
        version = client.protocol_version
        print("ok connect" if version == want else f"FAILED connect: {version}, not {want}", flush=True)
        steps = Steps(client)
        for step in [s for s in vars(Steps) if s.startswith("step_")]:
            name = step.removeprefix("step_").replace("_", " ")
            try:
                left_out = name in os.environ.get("LEFT_OUT", "").split()
                lack = os.environ["WHY"] if left_out else await asyncio.wait_for(getattr(steps, step)(), 60)
                print(f"not {name}: {lack}" if lack else f"ok {name}", flush=True)
            except Exception as e:
                print(f"FAILED {name}: {e!r}".replace("\n", " "), flush=True)
    print("ok close")
    if has_tasks:
        async with connect() as client:
            await call_tool_task(client, "slow_compute")
            await call_tool_task(client, "confirm_delete", {"filename": "a.txt"})
        print("ok close at work")


asyncio.run(main())

"""The Python clients: python client.py v1|legacy|auto|modern COMMAND [ARG...], or a URL in place of COMMAND

v1 is the mode for mcp 1.x. The other modes are for mcp 2.x and select the versions of the protocol.
"""

import asyncio
import json
import os
import sys
from collections import defaultdict
from contextlib import asynccontextmanager
from datetime import timedelta

from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from pydantic import AnyUrl

flavour, command, *args = sys.argv[1:]
v1, modern = flavour == "v1", flavour in ("auto", "modern")
received = defaultdict(asyncio.Queue)
unexpected = asyncio.Queue()
asked = []
action = "accept"


def wire(model):
    """Returns the model as JSON with the names of the protocol; the libraries have different names."""
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


async def elicit(_, params):
    asked.append(wire(params))
    if action != "accept" or asked[-1].get("mode") == "url":
        return types.ElicitResult(action=action)
    answers = {"username": "ann", "email": "ann@example.com", "name": "Ann", "color": "blue", "context": "home", "ok": True}
    return types.ElicitResult(action=action, content={k: answers[k] for k in asked[-1]["requestedSchema"]["properties"]})


async def sample(_, params):
    content = wire(params)["messages"][0]["content"]
    said = (content[0] if isinstance(content, list) else content)["text"] + " indeed"
    return types.CreateMessageResult(role="assistant", model="parrot", content=types.TextContent(type="text", text=said))


async def roots(_):
    return types.ListRootsResult(roots=[types.Root(uri="file:///srv/ann", name="ann")])


async def log(params):
    received["notifications/message"].put_nowait(wire(params))


async def on_notification(message):
    if isinstance(message, Exception):
        unexpected.put_nowait(message)
    else:
        message = wire(message)
        received[message.get("method")].put_nowait(message.get("params"))


@asynccontextmanager
async def connect():
    http = command.startswith("http:")
    server = command if http else StdioServerParameters(command=command, args=args)
    callbacks = dict(elicitation_callback=elicit, sampling_callback=sample, list_roots_callback=roots,
                     logging_callback=log, message_handler=on_notification)
    if v1:
        from mcp.client.streamable_http import streamable_http_client
        async with (streamable_http_client if http else stdio_client)(server) as (r, w, *_), ClientSession(r, w, **callbacks) as session:
            yield session, wire(await session.initialize())["protocolVersion"]
    else:
        from mcp import Client
        async with Client(server, mode="2026-07-28" if flavour == "modern" else flavour, **callbacks) as client:
            yield client, client.protocol_version


class Steps:
    def __init__(self, client):
        self.c = client

    async def tool(self, name, arguments=None, **options):
        return wire(await self.c.call_tool(name, arguments or {}, **options))

    async def text(self, name, arguments=None, **options):
        return (await self.tool(name, arguments, **options))["content"][0]["text"]

    async def read(self, uri):
        return wire(await self.c.read_resource(AnyUrl(uri) if v1 else uri))["contents"][0]

    async def news(self, method):
        return await asyncio.wait_for(received["notifications/" + method].get(), 20)

    async def fails(self, call, *words):
        try:
            answer = await call
        except Exception as e:
            assert all(w in str(e).lower() for w in words), e
        else:
            raise AssertionError(f"did not fail: {answer}")

    async def begun(self):
        """Starts a call, waits until its handler has started, and returns the task."""
        begun = asyncio.Event()

        async def progress(done, total, message):
            begun.set()

        slow = asyncio.create_task(self.tool("slow", progress_callback=progress))
        await asyncio.wait_for(begun.wait(), 20)
        return slow

    async def step_lists(self):
        tools = {t["name"]: t for t in wire(await self.c.list_tools())["tools"]}
        assert tools["add"]["outputSchema"]["properties"]["sum"]["type"] == "integer"
        resources = wire(await self.c.list_resources())["resources"]
        assert "test://static-text" in [r["uri"] for r in resources], resources
        templates = wire(await self.c.list_resource_templates())["resourceTemplates"]
        assert [t["uriTemplate"] for t in templates] == ["test://template/{id}/data"]
        assert "test_simple_prompt" in [p["name"] for p in wire(await self.c.list_prompts())["prompts"]]

    async def step_call(self):
        assert (await self.text("test_simple_text")).startswith("This is a simple text")
        for name, want in [("image_content", ["image"]), ("audio_content", ["audio"]), ("embedded_resource", ["resource"]),
                           ("multiple_content_types", ["text", "image", "resource"])]:
            assert [c["type"] for c in (await self.tool("test_" + name))["content"]] == want

    async def step_errors(self):
        assert (await self.tool("test_error_handling"))["isError"]
        assert (await self.tool("slow", {"seconds": "many"}))["isError"]
        await self.fails(self.c.call_tool("no_such_tool", {}), "no_such_tool")
        await self.fails(self.read("test://nothing"), "not found")

    async def step_structured(self):
        assert (await self.tool("add", {"a": 2, "b": 3}))["structuredContent"] == {"sum": 5}

    async def step_progress(self):
        seen = []

        async def progress(done, total, message):
            seen.append((done, total, message))

        assert await self.text("test_tool_with_progress", progress_callback=progress) == "done"
        assert seen == [(0, 100, "0 %"), (50, 100, "50 %"), (100, 100, "100 %")], seen

    async def step_cancel(self):
        if v1:
            return "the library sends no cancellation if a call's task is cancelled"
        slow = await self.begun()
        slow.cancel()
        await asyncio.wait([slow])
        assert slow.cancelled()
        await self.text("test_simple_text")

    async def step_timeout(self):
        if not v1:
            return await self.fails(self.tool("slow", read_timeout_seconds=0.1), "timed out")
        await self.fails(self.tool("slow", {"seconds": 2}, read_timeout_seconds=timedelta(seconds=0.1)), "timed out")
        await asyncio.wait_for(unexpected.get(), 20)  # the library sends no cancellation, so the response still arrives

    async def step_resources(self):
        assert "static text resource" in (await self.read("test://static-text"))["text"]
        assert (await self.read("test://static-binary"))["blob"].startswith("iVBORw0KGgo")
        for id in ["42", "ü"]:  # mcp 1.x escapes the ü, and mcp 2.x does not
            assert json.loads((await self.read(f"test://template/{id}/data"))["text"])["id"] == id

    async def step_subscribe(self):
        uri = "test://watched-resource"
        if modern:
            async with self.c.listen(resource_subscriptions=[uri]) as events:
                await self.tool("touch_watched_resource")
                assert (await asyncio.wait_for(anext(events), 20)).uri == uri
            return
        await self.c.subscribe_resource(AnyUrl(uri) if v1 else uri)
        await self.tool("touch_watched_resource")
        assert (await self.news("resources/updated"))["uri"] == uri
        await self.c.unsubscribe_resource(AnyUrl(uri) if v1 else uri)
        await self.tool("touch_watched_resource")
        await self.text("test_simple_text")
        assert received["notifications/resources/updated"].empty()

    async def step_prompts(self):
        name = "test_prompt_with_arguments"
        got = wire(await self.c.get_prompt(name, {"arg1": "x", "arg2": "y"}))
        assert "arg1='x', arg2='y'" in got["messages"][0]["content"]["text"]
        assert wire(await self.c.get_prompt("test_prompt_with_image"))["messages"][0]["content"]["type"] == "image"
        await self.fails(self.c.get_prompt(name, {"arg1": "x"}), "arg2")

    async def step_completion(self):
        prompt = types.PromptReference(type="ref/prompt", name="test_prompt_with_arguments")
        template = types.ResourceTemplateReference(type="ref/resource", uri="test://template/{id}/data")
        for ref, name, want in [(prompt, "arg1", ["v1", "v2"]), (template, "id", ["v1", "v2", "v3"])]:
            got = wire(await self.c.complete(ref, {"name": name, "value": "v"}))
            assert got["completion"]["values"] == want, got

    async def step_logging(self):
        if not modern:
            await self.c.set_logging_level("info")
        await self.tool("test_tool_with_logging", meta={"io.modelcontextprotocol/logLevel": "info"} if modern else None)
        logs = [await self.news("message") for _ in range(3)]
        assert {(m["level"], m["logger"]) for m in logs} == {("info", "everything")}, logs

    async def step_elicitation(self):
        global action
        assert "ann@example.com" in await self.text("test_elicitation", {"message": "Who?"})
        assert asked[-1]["message"] == "Who?"
        assert await self.text("test_url_elicitation") == "on the way"
        assert asked[-1]["url"] == "https://example.com/login"
        assert await self.text("test_input_required_result_multi_round") == "Ann likes blue"
        prompt = wire(await self.c.get_prompt("test_input_required_result_prompt"))
        assert "context: home" in prompt["messages"][0]["content"]["text"]
        action = "decline"
        assert "action=decline" in await self.text("test_elicitation", {"message": "Who?"})
        action = "accept"

    async def step_sampling(self):
        assert await self.text("test_sampling", {"prompt": "Fine"}) == "LLM response: Fine indeed"

    async def step_roots(self):
        assert "file:///srv/ann" in await self.text("roots")
        assert (await self.text("test_input_required_result_multiple_inputs")).endswith("Ann, 1 roots")
        if not modern:
            await self.c.send_roots_list_changed()

    async def step_changes(self):
        if modern:
            async with self.c.listen(tools_list_changed=True, prompts_list_changed=True) as events:
                for what in ["tool", "prompt"]:
                    await self.tool(f"test_trigger_{what}_change")
                    event = await asyncio.wait_for(anext(events), 20)
                    assert type(event).__name__ == f"{what.title()}sListChanged", event
            return
        for what in ["tool", "prompt"]:
            await self.tool(f"test_trigger_{what}_change")
            await self.news(f"{what}s/list_changed")

    async def step_together(self):
        sums = await asyncio.gather(*(self.tool("add", {"a": i, "b": 1}) for i in range(100)))
        assert [s["structuredContent"]["sum"] for s in sums] == list(range(1, 101))


async def main():
    async with connect() as (client, version):
        want = "2026-07-28" if modern else "2025-11-25"
        print("ok connect" if version == want else f"FAILED connect: {version}, not {want}", flush=True)
        steps = Steps(client)
        for step in [s for s in vars(Steps) if s.startswith("step_")]:
            name = step.removeprefix("step_")
            try:
                left_out = name in os.environ.get("LEFT_OUT", "").split()
                lack = os.environ["WHY"] if left_out else await getattr(steps, step)()
                print(f"not {name}: {lack}" if lack else f"ok {name}", flush=True)
            except Exception as e:
                print(f"FAILED {name}: {e!r}".replace("\n", " "), flush=True)
    print("ok close")
    if v1:
        # After this error the library may kill the server or not, depending on timing.
        return print("not close at work: the library raises BrokenResourceError when it reads the response to the open call")
    async with connect() as (client, version):
        slow = await Steps(client).begun()
    slow.cancel()
    await asyncio.wait([slow])
    print("ok close at work")


asyncio.run(main())

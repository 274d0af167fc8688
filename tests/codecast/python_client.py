"""codecast's own client, as its package has it, against a daemon on loopback.

    python_client.py PORT

Plays scenarios one after the other; each is a function below. Prints a line for each and ends with 1
at the first that fails.
"""

import asyncio
import sys

from head.daemon_client import DaemonClient, DaemonError

PORT = int(sys.argv[1])
LIMIT = 60


async def collect(client, session, message):
    """The events of a message, pings left out."""
    events = []
    async for event in client.send_message(PORT, session, message):
        if event["type"] != "ping":
            events.append(event)
    return events


def kinds(events):
    return [event["type"] for event in events]


def texts(events):
    return [event["content"] for event in events if event["type"] == "text"]


def numbers(events):
    return [int(event["content"]) for event in events if event["type"] == "partial"]


async def until(what, probe):
    async with asyncio.timeout(LIMIT):
        while not await probe():
            await asyncio.sleep(0.01)


async def status(client, session):
    for listed in await client.list_sessions(PORT):
        if listed["sessionId"] == session:
            return listed["status"]
    return None


async def create_list_and_health(client):
    health = await client.health_check(PORT)
    assert health["ok"] is True and health["sessions"] == 0, health
    assert {"rss", "heapUsed", "heapTotal"} == set(health["memory"]), health
    assert isinstance(health["uptime"], int) and isinstance(health["pid"], int), health
    session = await client.create_session(PORT, "p", mode="code", model="some-model", cli_type="codex")
    [listed] = await client.list_sessions(PORT)
    assert listed["sessionId"] == session and listed["status"] == "idle", listed
    assert (listed["mode"], listed["model"], listed["cliType"]) == ("code", "some-model", "codex"), listed
    monitor = await client.monitor_sessions(PORT)
    assert monitor["totalSessions"] == 1 and monitor["sessions"][0]["queue"]["userPending"] == 0, monitor
    assert await client.destroy_session(PORT, session) is True
    assert await client.destroy_session(PORT, session) is False


async def stream(client):
    session = await client.create_session(PORT, "p")
    events = await collect(client, session, "say hello there")
    assert texts(events) == ["hello there"], events
    assert "".join(event["content"] for event in events if event["type"] == "partial") == "hello there", events
    assert kinds(events)[0] == "system" and kinds(events)[-1] == "result", events
    assert events[-1]["session_id"] == events[0]["session_id"], events
    # The client leaves the stream at its last line; nothing may be taken for unread.
    stats = await client.get_queue_stats(PORT, session)
    assert stats == {"userPending": 0, "responsePending": 0, "clientConnected": True}, stats
    assert await client.reconnect_session(PORT, session) == []
    events = await collect(client, session, "tool echo hi")
    assert {"type": "tool_use", "tool": "Bash"} in events, events
    assert texts(events)[-1] == "tool said: hi", events


async def every_cli(client):
    for cli in ["claude", "codex", "gemini", "opencode"]:
        session = await client.create_session(PORT, "p", cli_type=cli)
        events = await collect(client, session, "say this is " + cli)
        assert texts(events) == ["this is " + cli], events
        assert kinds(events)[-1] == "result", events


async def many_events_and_long_lines(client):
    session = await client.create_session(PORT, "p")
    events = await collect(client, session, "stream 20000")
    assert numbers(events) == list(range(20000)), len(events)
    # Its HTTP library gives up on lines of half a megabyte.
    events = await collect(client, session, "bigline 2000000")
    assert "error" not in kinds(events), events[-1]
    assert len("".join(texts(events))) >= 2000000, [len(text) for text in texts(events)]
    stats = await client.get_queue_stats(PORT, session)
    assert stats["responsePending"] == 0 and stats["clientConnected"], stats


async def queue(client):
    session = await client.create_session(PORT, "p")
    # Long enough for the calls below on a busy machine: they took more than two seconds once.
    first = asyncio.create_task(collect(client, session, "sleep 10"))

    async def busy():
        return await status(client, session) == "busy"

    await until("busy", busy)
    assert await collect(client, session, "say second") == [{"type": "queued", "position": 1}]
    assert await collect(client, session, "say third") == [{"type": "queued", "position": 2}]
    assert (await client.get_queue_stats(PORT, session))["userPending"] == 2
    assert texts(await first) == ["sleeping done", "second", "third"]


async def interrupt(client):
    session = await client.create_session(PORT, "p")
    assert await client.interrupt_session(PORT, session) == {"ok": True, "interrupted": False}
    running = asyncio.create_task(collect(client, session, "sleep 600"))

    async def busy():
        return await status(client, session) == "busy"

    await until("busy", busy)
    assert (await collect(client, session, "say never"))[0]["type"] == "queued"
    assert await client.interrupt_session(PORT, session) == {"ok": True, "interrupted": True}
    events = await running
    assert kinds(events)[-1] == "interrupted" and "error" not in kinds(events), events
    assert texts(await collect(client, session, "say after")) == ["after"]


async def reconnect(client):
    session = await client.create_session(PORT, "p")
    seen = []
    async for event in client.send_message(PORT, session, "slow 200 10"):
        if event["type"] != "ping":
            seen.append(event)
        if len(numbers(seen)) >= 50:
            break
    # The rest comes without a stream.
    missed = []

    async def over():
        missed.extend(await client.reconnect_session(PORT, session))
        return "result" in kinds(missed)

    await until("the end of the turn", over)
    assert sorted(set(numbers(seen) + numbers(missed))) == list(range(200)), (numbers(seen), numbers(missed))
    assert await client.reconnect_session(PORT, session) == []

    # Its process may live a moment longer than its last word; a message that comes before its end waits for it.
    async def idle():
        return await status(client, session) == "idle"

    await until("idle", idle)
    assert texts(await collect(client, session, "say later")) == ["later"]


async def modes_models_and_resume(client):
    session = await client.create_session(PORT, "p")
    assert await client.set_mode(PORT, session, "plan") is True
    assert await client.set_model(PORT, session, "chosen") is True
    assert texts(await collect(client, session, "model")) == ["chosen"]
    assert await client.set_model(PORT, session, None) is True
    assert texts(await collect(client, session, "model")) != ["chosen"]
    assert await client.resume_session(PORT, "nobody") == {"ok": False, "fallback": False}
    answer = await client.resume_session(PORT, session, "c1a0de00-0000-4000-8000-00000000beef")
    assert answer == {"ok": True, "fallback": False}
    [listed] = [listed for listed in await client.list_sessions(PORT) if listed["sessionId"] == session]
    assert listed["sdkSessionId"] == "c1a0de00-0000-4000-8000-00000000beef", listed
    assert listed["mode"] == "plan", listed


async def destroy(client):
    session = await client.create_session(PORT, "p")
    running = asyncio.create_task(collect(client, session, "sleep 600"))

    async def busy():
        return await status(client, session) == "busy"

    await until("busy", busy)
    assert await client.destroy_session(PORT, session) is True
    events = await running
    assert not {"error", "interrupted", "result"} & set(kinds(events)), events
    assert await status(client, session) is None
    events = await collect(client, session, "x")
    assert events == [{"type": "error", "message": f"Session not found: {session}"}], events


async def errors(client):
    for call, code, text in [
        (client.create_session(PORT, "/no/such/folder"), -32000, "Path does not exist on remote machine"),
        (client.create_session(PORT, "p", mode="yolo"), -32602, "yolo"),
        (client.create_session(PORT, "p", cli_type="cursor"), -32602, "cursor"),
        (client.set_mode(PORT, "nobody", "plan"), -32000, "Session not found: nobody"),
        (client.set_mode(PORT, "nobody", "x"), -32000, "Invalid mode"),
        (client.get_queue_stats(PORT, "nobody"), -32000, "Session not found"),
    ]:
        try:
            answer = await call
        except DaemonError as error:
            assert error.code == code and text in str(error), error
        else:
            raise AssertionError(f"no error but {answer}")


SCENARIOS = [
    create_list_and_health,
    stream,
    every_cli,
    many_events_and_long_lines,
    queue,
    interrupt,
    reconnect,
    modes_models_and_resume,
    destroy,
    errors,
]


async def main():
    for scenario in SCENARIOS:
        async with DaemonClient() as client:
            async with asyncio.timeout(2 * LIMIT):
                await scenario(client)
        print(f"{scenario.__name__}: fine", flush=True)
    print(f"all {len(SCENARIOS)} scenarios passed")


asyncio.run(main())

"""Attacks on what belongs to others: transcripts, commands that run, the inbox."""

import base64, glob, json, os

from doors import Mcp, Request, Rpc, attempt, call, claustrum, codecast, command, database, told, reached


def read_doors(facts):
    """Everything of another session that doors tell."""
    session, said = facts["session"], []
    for door in ("hostel.sock", "zeroclaw.sock"):
        for method in ("session/messages", "session/state", "session/attach", "session/git_branch"):
            said.append(call(facts, method, door, session_id=session, follow=False))
        said.append(call(facts, "session/list", door, all=True))
    said.append(call(facts, "session/export", session_id=session))
    said.append(call(facts, "approval/list", all=True))
    said.append(call(facts, "approval/get", id=facts["question"]))
    said.append(call(facts, "process/attach", id=facts["process"], follow=False))
    said.append(claustrum(facts, "process.reattach", id=facts["name"]))
    said.append(codecast(facts, "session.reconnect", sessionId=session))
    said.append(codecast(facts, "session.list"))
    for tool, arguments in (("session_read", {"session": session}), ("session_list", {})):
        said.append(attempt(lambda: Mcp(facts).tool(tool, **arguments)))
    return said


def read_files(facts):
    """The same from the files of the house."""
    def from_database():
        tables = [row[0] for row in database(facts).execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return [tuple(map(str, row)) for table in tables for row in database(facts).execute(f"SELECT * FROM {table}")]

    def from_journals():
        found = glob.glob(f"{facts['house']}/journal/**", recursive=True)
        return [open(path, "rb").read().decode("latin-1") for path in found if os.path.isfile(path)]
    return [attempt(from_database), attempt(from_journals)]


def disturb(facts):
    """Writes to and ends a command of somebody else's, by its name and its id."""
    data, said = base64.b64encode(b"evil\n").decode(), []
    for identifier, name in facts["processes"]:
        said.append(call(facts, "process/stdin", id=identifier, data=data))
        said.append(call(facts, "process/close_stdin", id=identifier))
        for word in ("TERM", "KILL", "INT"):
            said.append(call(facts, "process/kill", id=identifier, signal=word, wait_ms=50))
        said.append(claustrum(facts, "process.stdin", id=name, data=data))
        said.append(claustrum(facts, "process.kill", id=name, signal="KILL"))
        said.append(claustrum(facts, "process.killAndWait", id=name, timeoutMs=50))
        said.append(call(facts, "process/spawn", argv=["true"], name=name, replace=True))
    return said


def fill(facts):
    """Fills the inbox: what was taken and what was refused."""
    taken, refused, connections = 0, 0, []
    for _ in range(facts["connections"]):
        native = attempt(lambda: Rpc(facts))
        if isinstance(native, dict):
            refused += 1
            continue
        connections.append(native)
        for number in range(facts["each"]):
            native.begin("approval/ask", question=f"may I, {number}?")
        # Refusals are told at once; this answer comes behind them.
        last = native.begin("house/status")
        for line in native.lines:
            heard = json.loads(line)
            if heard.get("id") == last:
                break
            refused += "error" in heard
    taken = facts["connections"] * facts["each"]
    requests = [attempt(lambda: Request(facts, command(["true"]))) for _ in range(facts["commands"])]
    reached(facts, "filled")
    told(facts, "enough")
    for one in requests:
        if isinstance(one, Request):
            one.withdraw()
    return {"sent": taken, "refused": refused}

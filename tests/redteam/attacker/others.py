"""Attacks on what belongs to others: transcripts, commands that run, the inbox."""

import base64, glob, json, os, select

from doors import Mcp, Rpc, attempt, call, claustrum, codecast, command, connect, database, reached


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
    """Fills the inbox with questions and commands; counts what is refused until the test has seen enough."""
    sent, waiting = 0, []
    for _ in range(facts["connections"]):
        native = Rpc(facts)
        waiting.append(native.stream)
        for number in range(facts["each"]):
            native.begin("approval/ask", question=f"may I, {number}?")
        sent += facts["each"]
    for _ in range(facts["commands"]):
        stream = connect(f"{facts['house']}/run/sudo.sock")
        # The door may have refused it already, which is read below.
        attempt(stream.sendall, json.dumps(command(["true"])).encode() + b"\n")
        waiting.append(stream)
        sent += 1
    reached(facts, "sent", str(sent))
    heard, refused = {stream: b"" for stream in waiting}, 0
    while not os.path.exists(f"{facts['signals']}/enough"):
        for stream in select.select(list(heard), [], [], 0.05)[0]:
            piece = stream.recv(65536)
            *lines, rest = (heard.pop(stream) + piece).split(b"\n")
            refused += sum("error" in line or line.get("status") == "error" for line in map(json.loads, lines))
            if piece:
                heard[stream] = rest
        reached(facts, "refused", str(refused))
    for stream in waiting:
        stream.close()
    return {"sent": sent, "refused": refused}

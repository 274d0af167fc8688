"""Attacks on the house itself: its keeper, its life, the rights of sessions."""

import os, subprocess

from doors import Rpc, attempt, call, codecast, connect


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

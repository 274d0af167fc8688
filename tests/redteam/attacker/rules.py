"""Attacks on rules: a request that says of itself what a rule wants to hear."""

import json, os, socket, time

from doors import PATIENCE, Request, attempt, command, connect, reached, told


def text(facts):
    """The word that the rule names, in every place that a client fills."""
    word, argv, said = facts["word"], facts["argv"], []
    waiting = []
    for place in ("version", "session", "host", "reason", "id", "requester", "client", "program", "door"):
        more = {place: word}
        waiting.append(attempt(lambda: Request(facts, command(argv, **more))))
    waiting.append(attempt(lambda: Request(facts, command(argv, version=word, session=word, host=word, reason=word))))
    reached(facts, "asked")
    told(facts, "enough")
    for one in waiting:
        if isinstance(one, Request):
            one.stream.settimeout(0.05)
            said.append(attempt(one.answer))
            one.withdraw()
        else:
            said.append(one)
    return said


def plain(facts):
    """A request that a rule of the house is about."""
    return attempt(lambda: Request(facts, command(facts["argv"])).answer())


def borrowed(facts):
    """Asks by a connection of a process that has become the program which a rule names."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        stream = connect(f"{facts['house']}/run/sudo.sock")
        socket.send_fds(theirs, [b"x"], [stream.fileno()])
        os.execv(facts["trusted"], [facts["trusted"], "600"])
    _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
    while os.readlink(f"/proc/{child}/exe") != facts["trusted"]:
        time.sleep(0.001)
    stream = socket.socket(fileno=descriptors[0])
    stream.settimeout(PATIENCE)
    stream.sendall(json.dumps(command(facts["argv"], **facts.get("more", {}))).encode() + b"\n")
    reached(facts, "asked")
    told(facts, "enough")
    stream.close()
    os.kill(child, 9)
    os.waitpid(child, 0)
    return "asked"


def nothing(facts):
    """No attack."""
    return "nothing"

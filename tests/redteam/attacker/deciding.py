"""Attacks on the decision: an own request is approved by whoever asked, with the passphrase."""

import ctypes, json, os, socket, subprocess, sys, time

from doors import Mcp, Request, Rpc, attempt, call, command, connect, told, reached


def decide(facts, identifier):
    """Every way in which somebody decides."""
    passphrase, said = facts["passphrase"], []
    for word in ("allow_once", "allow_always", "allow_changeable"):
        said.append(call(facts, "approval/decide", id=identifier, decision=word, passphrase=passphrase))

    def unlocked():
        native = Rpc(facts)
        return [native.call("approval/unlock", passphrase=passphrase),
                native.call("approval/decide", id=identifier, decision="allow_once")]
    said.append(attempt(unlocked))
    for door in ("hostel.sock", "zeroclaw.sock"):
        said.append(call(facts, "session/approve", door, session_id=facts.get("session", ""), request_id=identifier,
                         decision="allow_once", passphrase=passphrase))
    words = [facts["hostel"], "--home", facts["house"], "approvals", "approve", identifier, "--yes",
             "--passphrase-fd", "0"]
    done = attempt(lambda: subprocess.run(words, input=passphrase, capture_output=True, text=True))
    said.append(done if isinstance(done, dict) else {"code": done.returncode, "said": done.stderr})
    # The approver's rights themselves, which the passphrase gives to whoever is outside.
    if not facts.get("is_outside"):
        said.append(call(facts, "approver/set", passphrase="another passphrase", old=passphrase))
        said.append(call(facts, "approver/clear", passphrase=passphrase))
    return said


def without(facts):
    """Decides without the passphrase, from wherever this runs."""
    identifier, said = facts["id"], []
    said.append(call(facts, "approval/decide", id=identifier, decision="allow_once"))
    for door in ("hostel.sock", "zeroclaw.sock"):
        said.append(call(facts, "session/approve", door, session_id=facts["session"], request_id=identifier,
                         decision="allow_once"))
    return said


def with_passphrase(facts):
    """The same as a person would."""
    return call(facts, "approval/decide", id=facts["id"], decision="allow_once", passphrase=facts["passphrase"])


def escaped(facts, identifier, number, wrap):
    """Decides from a process that hides where it comes from."""
    path, result = f"{facts['signals']}/escaped-{number}", f"{facts['signals']}/escaped-{number}.result"
    with open(path, "w") as file:
        json.dump({**facts, "id": identifier}, file)
    words = [*wrap, sys.executable, os.path.abspath(sys.argv[0]), "deciding.later", path, result]
    subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return attempt(lambda: json.loads(told(facts, f"escaped-{number}.result")))


def later(facts):
    """Decides once the parent is gone, which would tell where this comes from."""
    def is_there():
        with open(f"/proc/{os.getppid()}/comm") as file:
            return file.read().strip() == "setsid"
    while attempt(is_there) is True:
        time.sleep(0.001)
    return decide(facts, facts["id"])


def own_request(facts):
    """Asks for a command and approves it: directly, hidden, and by somebody outside who was handed a connection."""
    request = Request(facts, command(facts["argv"]))
    identifier = told(facts, "go")
    said = decide(facts, identifier)
    empty = ["env", "-i", f"PATH={os.environ['PATH']}"]
    ways = [["setsid", "--fork"], [*empty, "setsid", "--fork"],
            [*empty, "setsid", "--fork", "prlimit", "--locks=77", "--nofile=777"]]
    for number, wrap in enumerate(ways):
        said.append(escaped(facts, identifier, number, wrap))
    said.append(attempt(hand_over, facts))
    reached(facts, "tried")
    told(facts, "enough")
    if facts.get("waits"):
        return {"said": said, "answer": request.answer()}
    request.withdraw()
    return {"said": said}


def hand_over(facts):
    """Connects and hands the connection to a process outside of the house."""
    meeting = connect(facts["meeting"])
    for name in ("hostel.sock", "zeroclaw.sock"):
        stream = connect(f"{facts['house']}/run/{name}")
        socket.send_fds(meeting, [name.encode()], [stream.fileno()])
        stream.close()
        meeting.recv(1)
    return "handed over"


def receive(facts):
    """The process outside: decides by connections that it is handed."""
    listener = socket.socket(socket.AF_UNIX)
    listener.settimeout(60)
    listener.bind(facts["meeting"])
    listener.listen()
    reached(facts, "meeting")
    meeting, _ = listener.accept()
    identifier, said = told(facts, "go"), []
    while True:
        name, descriptors, _, _ = socket.recv_fds(meeting, 64, 1)
        if not name:
            return said
        rpc = Rpc(facts, stream=socket.socket(fileno=descriptors[0]))
        said.append(attempt(rpc.call, "initialize", protocol_version=1))
        said.append(attempt(rpc.call, "approval/decide", id=identifier, decision="allow_once",
                            passphrase=facts["passphrase"]))
        said.append(attempt(rpc.call, "session/approve", session_id="", request_id=identifier, decision="allow_once"))
        meeting.send(b"x")


def hidden_request(facts):
    """Asks over HTTP as a process that cannot be recognised, and decides from the same tree."""
    PR_SET_DUMPABLE = 4
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0 if facts["hide"] else 1, 0, 0, 0)
    child = os.fork()
    if child == 0:
        said = attempt(lambda: Mcp(facts).tool("ask_approval", question=facts["question"]))
        reached(facts, "answered", json.dumps(said))
        os._exit(0)
    identifier = told(facts, "go")
    said = decide(facts, identifier) if facts["decide"] else []
    reached(facts, "tried")
    told(facts, "enough")
    os.kill(child, 9)
    os.waitpid(child, 0)
    return said

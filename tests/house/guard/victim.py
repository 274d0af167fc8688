"""A program of the user outside the house, with things that an agent must not get at.

Prints one line of JSON: where everything is. Afterwards every line says that something was reached.
"""

import json, os, pty, select, signal, socket, sys, threading

directory = sys.argv[1]
lock = threading.Lock()


def say(what):
    with lock:
        print(what, flush=True)


def listen(address):
    server = socket.socket(socket.AF_UNIX)
    server.bind(address)
    server.listen()
    return server


def accept(server, name):
    while True:
        connection, _ = server.accept()
        say(f"connected {name}")
        connection.sendall(b"reached")
        connection.close()


def read_terminal(master):
    while True:
        try:
            if os.read(master, 4096):
                say("terminal written")
        except OSError:
            return


abstract = f"\0hostel-guard-{os.getpid()}"
runtime = os.path.join(os.environ["XDG_RUNTIME_DIR"], "bus")
tmux = f"/tmp/tmux-{os.getuid()}"
os.makedirs(tmux, mode=0o700, exist_ok=True)
multiplexer = os.path.join(tmux, f"guard-{os.getpid()}")
for address, name in [(abstract, "abstract"), (runtime, "runtime"), (multiplexer, "tmux")]:
    threading.Thread(target=accept, args=(listen(address), name), daemon=True).start()
master, slave = pty.openpty()
threading.Thread(target=read_terminal, args=(master,), daemon=True).start()
signal.signal(signal.SIGUSR1, lambda *_: say("signalled"))
secret = open(os.path.join(directory, "secret"))
# The collector does not move it.
canary = bytearray(b"canary-in-memory")
os.chdir(directory)
import ctypes

where = (ctypes.c_char * len(canary)).from_buffer(canary)
print(
    json.dumps({
        "pid": os.getpid(), "abstract": abstract, "runtime": runtime, "tmux": multiplexer, "terminal": os.ttyname(slave),
        "fd": secret.fileno(), "address": ctypes.addressof(where), "length": len(canary),
    }),
    flush=True,
)
while True:
    line = sys.stdin.readline()
    if not line:
        break
    say(f"memory {bytes(canary).decode()}")
os.unlink(multiplexer)

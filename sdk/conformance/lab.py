"""What the vectors need: a broker, the daemons of `alice` and `bob`, and a house, below one temporary directory.

Every process is started from here and ended from here, by its own handle; the keeper of the house ends with the house.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Callable

ROOT = Path(__file__).resolve().parent.parent.parent
# A limit against hangs.
READY_S = 120.0 * float(os.environ.get("HOSTEL_TEST_SCALE", "1"))
MESH = "lab"
CONFIG = "[ipc]\ntcp_enabled = true\nmax_sse = 2\n"


class Failed(Exception):
    """The lab did not come up."""


def program() -> Path:
    """The program that is tested."""
    named = os.environ.get("HOSTEL_BIN")
    target = os.environ.get("CARGO_TARGET_DIR") or ROOT / "target"
    return Path(named) if named else Path(target) / "debug" / "hostel"


def until(what: str, observe: Callable[[], Any], wanted: Callable[[Any], bool] = bool) -> Any:
    """Observes what another process does until it is as wanted; gives that observation."""
    end = time.monotonic() + READY_S
    while True:
        observed = observe()
        if wanted(observed):
            return observed
        if time.monotonic() > end:
            raise Failed(f"waited in vain for {what}; last seen: {observed!r}")
        time.sleep(0.01)


def build_typescript() -> Path:
    """Builds the TypeScript SDK, unless who runs this has done so; gives its directory."""
    place = ROOT / "sdk" / "typescript"
    if not os.environ.get("HOSTEL_SDK_BUILT"):
        subprocess.run([ROOT / "sdk" / "setup", "typescript"], check=True)
        for script in ("build", "build:all"):
            subprocess.run(["npm", "run", "--silent", script], cwd=place, check=True)
    return place


def accepts(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as attempt:
        try:
            attempt.connect(str(path))
        except OSError:
            return False
    return True


class Lab:
    """All of it; a context manager."""

    def __init__(self, sdk: str, config: str = CONFIG) -> None:
        self.sdk = sdk
        # Short: the paths of sockets are.
        self.root = Path(tempfile.mkdtemp(prefix="hostel-sdk-"))
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.config = config
        self.share = self.root / "share"
        self.runtime = self.root / "run"

    def __enter__(self) -> Lab:
        try:
            self._prepare()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    # ---- what is in it

    def home(self, member: str) -> Path:
        return self.root / member

    def daemon_dir(self, member: str) -> Path:
        return self.home(member) / ".claudemesh" / "daemon"

    def house(self) -> Path:
        return self.root / "house" / "hostel"

    def file(self) -> Path:
        """`lab.json`, for a runner."""
        members = {
            name: {"daemon_dir": str(self.daemon_dir(name)), "mesh": MESH, "pubkey": self.membership(name)["pubkey"]}
            for name in ("alice", "bob")
        }
        path = self.root / "lab.json"
        lab = {"sdk": self.sdk, "dir": str(self.share), "house": str(self.house()), "members": members}
        path.write_text(json.dumps(lab))
        return path

    def membership(self, member: str) -> dict[str, Any]:
        config = json.loads((self.home(member) / ".claudemesh" / "config.json").read_text())
        found: dict[str, Any] = config["meshes"][0]
        return found

    # ---- control

    def control(self, order: str) -> None:
        """`kill NAME`, `start NAME`, or `connected MEMBER`, which waits: a daemon accepts before its broker has answered."""
        verb, _, name = order.partition(" ")
        if verb == "kill":
            process = self.running.pop(name)
            process.kill()
            process.wait()
        elif verb == "start":
            self.start(name)
        elif verb == "connected":
            self.wait_connected(name)
        else:
            raise Failed(f"there is no control `{order}`")

    def start(self, name: str) -> None:
        arguments = {
            "house": ["up", "--foreground"],
            "broker": ["as", "claudemesh", "broker", "up", "--foreground"],
        }
        usual = ["as", "claudemesh", "daemon", "up", "--foreground", "--mesh", MESH]
        process = self._spawn(name, arguments.get(name, usual))

        def is_up() -> bool:
            if process.poll() is not None:
                raise Failed(f"{name} ended with {process.returncode}:\n{self.printed(name)}")
            if name == "broker":
                return self._connects()
            house = self.house() / "run" / "hostel.sock"
            return accepts(house if name == "house" else self.daemon_dir(name) / MESH / "sock")

        until(f"{name} to accept", is_up)

    def wait_connected(self, member: str) -> None:
        until(f"{member} to be connected", lambda: self._is_connected(member))

    def printed(self, name: str) -> str:
        """The end of what a process printed."""
        path = self.root / f"{name}.out"
        return "\n".join(path.read_text(errors="replace").splitlines()[-40:]) if path.exists() else ""

    def end(self) -> None:
        """Ends everything and takes it away."""
        house = self.running.pop("house", None)
        if house is not None or (self.house() / "run").exists():
            # Also the keeper and the agents it keeps.
            self._run("house", ["down"], check=False)
        processes = list(self.running.values()) + ([house] if house is not None else [])
        for process in processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in processes:
            try:
                process.wait(READY_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.running.clear()
        shutil.rmtree(self.root, ignore_errors=True)

    # ---- how it is made

    def _prepare(self) -> None:
        self.share.mkdir()
        self.runtime.mkdir(mode=0o700)
        (self.share / "hello.txt").write_text("hello\n")
        for name in ("alice", "bob", "house", "broker"):
            self.home(name).mkdir()
            (self.runtime / name).mkdir(mode=0o700)
        self.house().mkdir()
        for name in ("alice", "bob"):
            place = self.daemon_dir(name) / MESH
            place.mkdir(parents=True, mode=0o700)
            (place / "config.toml").write_text(self.config)
        self.start("broker")
        url = f"ws://127.0.0.1:{self._port()}/ws"
        arguments = ["as", "claudemesh", "mesh", "create", MESH, "--name", "alice", "--broker", url]
        self._run("alice", arguments, HOSTEL_HOME=str(self.home("broker")))
        self.start("alice")
        self.wait_connected("alice")
        printed = self._run("alice", ["as", "claudemesh", "mesh", "invite", "--mesh", MESH, "--uses", "1"])
        (link,) = [line.strip() for line in printed.splitlines() if line.strip().startswith("ic://")]
        self._run("bob", ["as", "claudemesh", "join", link, "--name", "bob"])
        self.start("bob")
        self.wait_connected("bob")
        self.start("house")

    def _environment(self, name: str) -> dict[str, str]:
        home = self.home(name)
        environment = {
            "PATH": os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin"),
            "HOME": str(home),
            "XDG_RUNTIME_DIR": str(self.runtime / name),
            "TMPDIR": str(self.root),
            "SHELL": "/bin/sh",
            "LC_ALL": "C",
            "HOSTEL_MESH_BROKER": "false",
            "HOSTEL_HOME": str(self.house() if name == "house" else home if name == "broker" else home / "hostel"),
            "CLAUDEMESH_INTERNAL_NO_AUTOSPAWN": "1",
        }
        if name in ("alice", "bob"):
            environment["CLAUDEMESH_CONFIG_DIR"] = str(home / ".claudemesh")
            environment["CLAUDEMESH_DAEMON_DIR"] = str(self.daemon_dir(name))
        return environment

    def _spawn(self, name: str, arguments: list[str]) -> subprocess.Popen[bytes]:
        with (self.root / f"{name}.out").open("ab") as output:
            process = subprocess.Popen(
                [program(), *arguments],
                env=self._environment(name),
                cwd=self.home(name),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self.running[name] = process
        return process

    def _run(self, name: str, arguments: list[str], check: bool = True, **more: str) -> str:
        done = subprocess.run(
            [program(), *arguments],
            env={**self._environment(name), **more},
            cwd=self.home(name),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=READY_S,
        )
        if check and done.returncode:
            raise Failed(f"{' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def _port(self) -> int | None:
        try:
            return int((self.home("broker") / "broker" / "port").read_text())
        except (OSError, ValueError):
            return None

    def _connects(self) -> bool:
        port = self._port()
        if port is None:
            return False
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            return False
        return True

    def _is_connected(self, member: str) -> bool:
        with socket.socket(socket.AF_UNIX) as stream:
            stream.connect(str(self.daemon_dir(member) / MESH / "sock"))
            stream.sendall(b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            answer = b""
            while piece := stream.recv(65536):
                answer += piece
        # Both: the daemon notes the one a moment before the other.
        return b'"connected":true' in answer and f'"{MESH}":"open"'.encode() in answer

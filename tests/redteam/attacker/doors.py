"""The doors of a house, spoken by hand, and what attacks share.

`python3 doors.py MODULE.FUNCTION FACTS RESULT` calls a function with the facts of a file and leaves what it returns in
another one. A session's agent runs this, and so does a process outside the house where a control needs one.
"""

import base64, datetime, importlib, json, os, socket, sqlite3, sys, time, traceback, uuid

PATIENCE = 60


class Rpc:
    """A connection that speaks JSON-RPC in lines."""

    def __init__(self, facts, name="hostel.sock", stream=None):
        self.stream = stream or connect(f"{facts['house']}/run/{name}")
        # Of one that was handed over, Python does not know that it does not block.
        self.stream.settimeout(PATIENCE)
        self.lines = self.stream.makefile("rb")
        self.number = 0
        if stream is None:
            self.call("initialize", protocol_version=1)

    def begin(self, method, **params):
        self.number += 1
        line = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}
        self.stream.sendall(json.dumps(line).encode() + b"\n")
        return self.number

    def answer(self, number):
        for line in self.lines:
            heard = json.loads(line)
            if heard.get("id") == number and "method" not in heard:
                return heard
        raise EOFError("the connection was closed")

    def call(self, method, **params):
        return self.answer(self.begin(method, **params))


def connect(path):
    stream = socket.socket(socket.AF_UNIX)
    stream.settimeout(PATIENCE)
    stream.connect(path)
    return stream


def attempt(function, *words, **named):
    """What a call returns, or why it failed: an attack goes on with the next way."""
    try:
        return function(*words, **named)
    except Exception as error:
        return {"failed": repr(error)}


def call(facts, method, door="hostel.sock", **params):
    """One call on a connection of its own."""
    return attempt(lambda: Rpc(facts, door).call(method, **params))


def claustrum(facts, method, **params):
    """One call at the claustrum door, with its token."""
    def speak():
        line = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params, "auth": facts["token"]}
        stream = connect(f"{facts['house']}/run/claustrum.sock")
        stream.sendall(json.dumps(line).encode() + b"\n")
        return json.loads(stream.makefile("rb").readline())
    return attempt(speak)


def http(address, path, body, **headers):
    """One HTTP request: the head and the body."""
    host, port = address.rsplit(":", 1)
    stream = socket.create_connection((host, int(port)), PATIENCE)
    sent = json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", f"Host: {address}", "Content-Type: application/json", "Connection: close",
             f"Content-Length: {len(sent)}", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
    stream.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + sent)
    heard = b""
    while piece := stream.recv(65536):
        heard += piece
    head, _, body = heard.partition(b"\r\n\r\n")
    return head.decode(), body.decode(errors="replace")


def codecast(facts, method, **params):
    """One call at the codecast door."""
    def speak():
        _, body = http(facts["codecast"], "/rpc", {"jsonrpc": "2.0", "id": "1", "method": method, "params": params})
        try:
            return json.loads(body)
        except ValueError:
            return {"stream": body}
    return attempt(speak)


class Mcp:
    """An MCP client over HTTP, with the token."""

    def __init__(self, facts):
        self.facts, self.headers = facts, {}
        client = {"name": "attacker", "version": "1"}
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
        head, _ = self.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        named = dict(line.split(": ", 1) for line in head.lower().split("\r\n")[1:] if ": " in line)
        self.headers = {"Mcp_Session_Id": named["mcp-session-id"], "MCP_Protocol_Version": "2025-06-18"}
        self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def post(self, message):
        more = {"Authorization": f"Bearer {self.facts['token']}", "Accept": "application/json, text/event-stream"}
        return http(self.facts["mcp"], "/mcp", message, **more, **self.headers)

    def tool(self, name, **arguments):
        params = {"name": name, "arguments": arguments}
        return self.post({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})[1]


def command(argv, **more):
    """A request line of the sudo-proxy door."""
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    request = {"id": str(uuid.uuid4()), "time": now, "session": "attacker", "pipeline": [argv], "privileged": False}
    return {**request, **more}


class Request:
    """A command that was asked for and waits for its answer."""

    def __init__(self, facts, line):
        self.stream = connect(facts.get("sudo") or f"{facts['house']}/run/sudo.sock")
        self.stream.sendall(json.dumps(line).encode() + b"\n")

    def answer(self):
        heard = self.stream.makefile("rb").readline()
        answer = json.loads(heard) if heard else {"closed": True}
        if answer.get("stdout"):
            answer["stdout"] = base64.b64decode(answer["stdout"]).decode(errors="replace")
        return answer

    def withdraw(self):
        self.stream.close()


def ask(facts, argv, **more):
    """Asks for a command and waits for the answer."""
    return attempt(lambda: Request(facts, command(argv, **more)).answer())


def database(facts):
    """The house's database, as every process of the user may open it if it sees it."""
    connection = sqlite3.connect(f"file:{facts['house']}/state.db?mode=rw", uri=True, timeout=PATIENCE)
    connection.isolation_level = None
    connection.row_factory = sqlite3.Row
    return connection


def put(path, text):
    """A file that appears with its content."""
    draft = f"{path}.draft"
    with open(draft, "w") as file:
        file.write(text)
    os.rename(draft, path)


def reached(facts, name, text=""):
    """Tells the test how far the attack is."""
    put(f"{facts['signals']}/{name}", text or "here\n")


def told(facts, name):
    """What the test has to say, once it says it."""
    path = f"{facts['signals']}/{name}"
    end = time.monotonic() + PATIENCE
    while not os.path.exists(path):
        if time.monotonic() > end:
            raise TimeoutError(path)
        time.sleep(0.01)
    with open(path) as file:
        return file.read().strip()


def main(name, facts, result):
    module, function = name.split(".")
    with open(facts) as file:
        facts = json.load(file)
    try:
        said = getattr(importlib.import_module(module), function)(facts)
    except Exception:
        said = {"crashed": traceback.format_exc()}
    put(result, json.dumps(said))


if __name__ == "__main__":
    main(*sys.argv[1:])

#!/usr/bin/env python3
"""A model that is none: it answers the agent CLIs on loopback, as told by the prompt itself.

Four wire formats, each as far as the CLIs use it, streamed and whole:

    Anthropic messages         POST /v1/messages, /v1/messages/count_tokens
    OpenAI responses           POST /v1/responses
    OpenAI chat completions    POST /v1/chat/completions
    Gemini                     POST /v1beta/models/NAME:generateContent, :streamGenerateContent, :countTokens

The last thing the user typed is the script:

    say: TEXT            TEXT
    tool: COMMAND        a call of the shell tool the CLI offers; then `tool said: ` and its result or refusal
    tools: A ;; B        the same, both calls in one reply
    call: NAME JSON      a call of any tool the CLI has
    slow: N MS           `part1 part2 ...`, N parts, MS milliseconds before each
    long: N              N words
    think: TEXT          the thought TEXT, then `thought about TEXT`
    error: STATUS [N]    an HTTP error; with N only for the first N requests with exactly this prompt in that format
    drop: N              N parts, then the connection breaks
    recall:              `earlier: ` and what the user typed before, joined by ` | `
    count: TEXT          how many characters TEXT has
    model:               the model that was asked for
    anything else        `you said: ` and the prompt

Requests in which a CLI offers no tool are its own errands (a title, a choice of model): they get a quick answer
that fits the form they ask for, and no script ever reaches them.

The port is the first line of output. The log (--log) has two JSON lines per request: what was asked, with a number,
and under the same number what became of it: `complete`, `refused`, `dropped` or `client went away`. Nothing outlives
the test that started it when it is run with --until-eof.
"""
import argparse
import http.server
import json
import re
import select
import socket
import sys
import threading
import time
import urllib.parse

sys.dont_write_bytecode = True  # The next import must not leave a folder in the repository.
from fake_wires import SCRIPT, wire_of  # noqa: E402

BODY_LIMIT = 64 << 20
SHELLS = ("Bash", "bash", "exec_command", "shell_command", "run_shell_command", "shell", "local_shell")


def words(text):
    return re.findall(r"\S+\s*|\s+", text)


class Answer:
    """What to say: steps in order, or an HTTP error."""

    def __init__(self, *steps, status=200):
        self.status = status
        self.steps = list(steps)  # ("thought", text) ("text", text, seconds) ("call", name, arguments) ("drop",)

    def tokens(self):
        return sum(len(step[1].split()) for step in self.steps if step[0] in ("text", "thought"))


def spoken(text):
    return [("text", word, 0) for word in words(text)]


class Script:
    """Decides the answers. Remembers only how often an error was already given."""

    def __init__(self):
        self.errors = {}
        self.lock = threading.Lock()

    def answer(self, asked):
        if not asked.tools:
            return errand(asked)
        prompts = asked.prompts()
        prompt = prompts[-1] if prompts else ""
        found = SCRIPT.match(prompt)
        order, rest = found.groups() if found else ("", prompt)
        results = asked.results()
        if order in ("tool", "tools", "call") and results is not None:
            return Answer(*spoken("tool said: " + results))
        if order in ("tool", "tools"):
            commands = rest.split(";;") if order == "tools" else [rest]
            return Answer(("text", "Running it. ", 0), *[shell_call(asked, command.strip()) for command in commands])
        if order == "call":
            name, _, arguments = rest.partition(" ")
            return Answer(("call", name, json.loads(arguments or "{}")))
        if order == "think":
            return Answer(("thought", rest), *spoken("thought about " + rest))
        if order == "recall":
            return Answer(*spoken("earlier: " + " | ".join(prompts[:-1])))
        if order == "count":
            return Answer(*spoken("counted %d" % len(rest)))
        if order == "model":
            return Answer(*spoken("the model is " + asked.model))
        if order in ("slow", "long", "error", "drop"):
            return self.by_number(order, rest, (asked.path, prompt))
        return Answer(*spoken(rest if order == "say" else "you said: " + prompt))

    def by_number(self, order, rest, request):
        numbers = [int(number) for number in re.findall(r"\d+", rest)] or [1]
        if order == "long":
            return Answer(*spoken(" ".join("word%d" % n for n in range(1, numbers[0] + 1))))
        parts = [("text", "part%d " % n, 0) for n in range(1, numbers[0] + 1)]
        if order == "slow":
            pause = (numbers[1] if len(numbers) > 1 else 100) / 1000
            return Answer(*[("text", step[1], pause) for step in parts])
        if order == "drop":
            return Answer(*parts, ("drop",))
        with self.lock:
            given = self.errors[request] = self.errors.get(request, 0) + 1
        if len(numbers) > 1 and given > numbers[1]:
            return Answer(*spoken("recovered after %d errors" % numbers[1]))
        return Answer(status=numbers[0])


def shell_call(asked, command):
    for name in SHELLS:
        if name in asked.tools:
            fields = (asked.tools[name] or {}).get("properties") or {}
            key = "cmd" if "cmd" in fields else "command"
            listed = (fields.get(key) or {}).get("type") == "array"
            arguments = {key: ["bash", "-lc", command] if listed else command}
            for field in (asked.tools[name] or {}).get("required") or []:
                arguments.setdefault(field, filled(fields.get(field) or {}, command))
            return ("call", name, arguments)
    return ("text", "There is no shell tool.", 0)


def errand(asked):
    if asked.form:
        return Answer(("text", json.dumps(filled(asked.form, "fake")), 0))
    return Answer(("text", "{}" if asked.wants_json else "A title", 0))


def filled(schema, text):
    """The smallest value a JSON schema accepts, as far as the CLIs' own schemas go."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = (kind[0] if isinstance(kind, list) else kind).lower()
    if kind == "object":
        return {name: filled(part, text) for name, part in (schema.get("properties") or {}).items()}
    return {"array": [], "boolean": True, "integer": 1, "number": 1, "null": None}.get(kind, text)


class Gone(Exception):
    """The client closed its end."""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "fake-model"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.reply(200, {})

    def do_GET(self):
        self.reply(404, {"error": {"message": "there is nothing here to get"}})

    def do_POST(self):
        path = urllib.parse.urlsplit(self.path).path
        body = self.body()
        if body is None:
            return
        wire, action = wire_of(path)
        if wire is None:
            self.reply(404, {"error": {"message": "no such path: " + path}})
            return
        asked = wire.parse(body)
        asked.path = path
        if action:
            asked.model, _, action = action.partition(":")
            asked.stream = action.startswith("stream")
        if action.startswith("count"):
            tokens = asked.tokens()
            self.reply(200, {"input_tokens": tokens, "totalTokens": tokens})
            return
        self.converse(body, wire, asked)

    def converse(self, body, wire, asked):
        number = self.server.note_request(asked, body)
        outcome, status = "client went away", 200
        try:
            try:
                answer = self.server.script.answer(asked)
            except ValueError as problem:
                answer = Answer(*spoken("the script cannot be followed: %s" % problem))
            status = answer.status
            if status != 200:
                self.reply(status, wire.refusal(status, "fake model error %d" % status))
                outcome = "refused"
            elif asked.stream:
                outcome = self.stream(wire(asked, answer), answer)
            else:
                voice = wire(asked, answer)
                for step in answer.steps:
                    self.wait(step[2] if step[0] == "text" else 0)
                    if step[0] != "drop":
                        voice.events(step)
                self.reply(200, voice.whole())
                outcome = "complete"
        except (Gone, OSError):
            self.close_connection = True
        finally:
            self.server.note(answer=number, status=status, outcome=outcome)

    def stream(self, voice, answer):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.send_events(voice.open())
        for step in answer.steps:
            if step[0] == "drop":
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return "dropped"
            if step[0] == "text" and step[2]:
                self.wait(step[2])
            self.send_events(voice.events(step))
        self.send_events(voice.close())
        self.wfile.write(b"0\r\n\r\n")
        return "complete"

    def send_events(self, events):
        block = "".join(("event: %s\n" % kind if kind else "") + "data: %s\n\n" %
                        (data if isinstance(data, str) else json.dumps(data)) for kind, data in events).encode()
        if block:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(block), block))

    def wait(self, seconds):
        """Waits, and notices at once when the client goes away meanwhile."""
        readable, _, _ = select.select([self.connection], [], [], seconds)
        if readable and not self.connection.recv(1, socket.MSG_PEEK):
            raise Gone
        if readable:  # Bytes of a further request: they can wait, and so must we.
            time.sleep(seconds)

    def body(self):
        """The request's JSON; None, with an answer already sent, if it has none."""
        if "chunked" in (self.headers.get("Transfer-Encoding") or "").lower():
            raw = b""
            while True:
                size = int(self.rfile.readline(64).split(b";")[0], 16)
                raw += self.rfile.read(size)
                self.rfile.readline(64)
                if size == 0 or len(raw) > BODY_LIMIT:
                    break
        else:
            raw = self.rfile.read(min(int(self.headers.get("Content-Length") or 0), BODY_LIMIT))
        try:
            body = json.loads(raw)
        except ValueError:
            body = None
        if not isinstance(body, dict):
            self.reply(400, {"error": {"message": "the body is no JSON object"}})
            return None
        return body

    def reply(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port, log, bodies):
        super().__init__(("127.0.0.1", port), Handler)
        self.script = Script()
        self.log = open(log, "a", encoding="utf-8") if log else None
        self.bodies = bodies
        self.lock = threading.Lock()
        self.count = 0

    def note_request(self, asked, body):
        with self.lock:
            self.count += 1
            number = self.count
        prompts = asked.prompts()
        prompt = prompts[-1] if prompts else ""
        more = {"body": body} if self.bodies else {}
        self.note(request=number, path=asked.path, model=asked.model, stream=asked.stream, errand=not asked.tools,
                  prompt=prompt[:1000], length=len(prompt), results=asked.results(), tools=sorted(asked.tools), **more)
        return number

    def note(self, **fields):
        if self.log:
            with self.lock:
                self.log.write(json.dumps(fields) + "\n")
                self.log.flush()

    def handle_error(self, *_):
        pass  # A client that leaves in the middle of a request is no news.


def main():
    options = argparse.ArgumentParser(description="a scripted model API on loopback for tests")
    options.add_argument("--port", type=int, default=0, help="0 takes a free one")
    options.add_argument("--log", help="append JSON lines about every request to this file")
    options.add_argument("--bodies", action="store_true", help="put whole request bodies into the log")
    options.add_argument("--until-eof", action="store_true", help="end when standard input ends")
    chosen = options.parse_args()
    server = Server(chosen.port, chosen.log, chosen.bodies)
    print(server.server_address[1], flush=True)
    if chosen.until_eof:
        threading.Thread(target=lambda: (sys.stdin.buffer.read(), server.shutdown()), daemon=True).start()
    try:
        server.serve_forever(poll_interval=0.1)
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()

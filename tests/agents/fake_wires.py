"""The four wire formats of the fake model: what a request says, and an answer's steps as events.

A format knows nothing of scripts and of sockets. `parse` turns a request body into an `Asked`; an object of the
class then turns steps into events to be sent at once (`open`, `events`, `close`) or, when all steps are through,
into one body (`whole`). A field that is missing or strange in a request counts as empty.
"""
import json
import re
import time
import uuid

# What the CLIs wrap around the user's words or send beside them, in tags of several words.
WRAPPED = re.compile(r"<([a-z]+(?:[_ -][a-z]+)+)\b[^>]*>.*?</\1>", re.S)
SCRIPT = re.compile(r"(say|tools?|call|slow|long|think|error|drop|recall|count|model):[ \t]*(.*)", re.S)


def fresh(prefix):
    return prefix + uuid.uuid4().hex[:20]


def texts(content):
    """The texts of a message, whose content may be a string or a list of parts."""
    if isinstance(content, str):
        return [content]
    return [part["text"] for part in content or [] if isinstance(part, dict) and isinstance(part.get("text"), str)]


class Asked:
    """One request, in words that belong to no wire: who said what, which tools there are."""

    def __init__(self, model, stream):
        self.path = ""
        self.model = model or "none"
        self.stream = bool(stream)
        self.said = []       # ("user" | "tool" | "model", text)
        self.tools = {}      # name -> JSON schema of its arguments
        self.form = None     # JSON schema of the wanted answer
        self.wants_json = False

    def add(self, who, parts):
        if who == "user":
            parts = [typed for typed in (WRAPPED.sub("", part).strip() for part in parts) if typed]
            # A prompt may come in several parts; the one with the script counts.
            parts = [part for part in parts if SCRIPT.match(unquoted(part))][-1:] or parts
        text = "\n".join(parts)
        if text:
            self.said.append((who, text))

    def prompts(self):
        return [unquoted(text) for who, text in self.said if who == "user"]

    def results(self):
        """What tools said after the last prompt; None if none was called."""
        found = []
        for who, text in reversed(self.said):
            if who == "user":
                break
            if who == "tool":
                found.append(text)
        return "\n".join(reversed(found)) if found else None

    def tokens(self):
        return sum(len(text.split()) for _, text in self.said)


def unquoted(text):
    """opencode puts quotes around a prompt of several words that came as an argument."""
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text


class Wire:
    """One conversation's answer in one format: each call returns events to be written at once."""

    def __init__(self, asked, answer):
        self.asked = asked
        self.id = fresh("msg_")
        self.called = any(step[0] == "call" for step in answer.steps)
        self.read, self.written = asked.tokens(), answer.tokens()

    def events(self, step):
        return getattr(self, step[0])(*step[1:2]) if step[0] != "call" else self.call(fresh("call_"), *step[1:])


class Anthropic(Wire):
    def __init__(self, asked, answer):
        super().__init__(asked, answer)
        self.blocks = []

    @staticmethod
    def parse(body):
        asked = Asked(body.get("model"), body.get("stream"))
        for message in body.get("messages") or []:
            parts = message.get("content")
            parts = [{"type": "text", "text": parts}] if isinstance(parts, str) else parts or []
            for part in parts:
                if part.get("type") == "tool_result":
                    asked.add("tool", texts(part.get("content")))
            who = {"user": "user", "assistant": "model"}.get(message.get("role"))
            if who:  # claude also puts messages of a role `system` among them
                asked.add(who, texts(parts) or (["call"] if who == "model" else []))
        asked.tools = {tool["name"]: tool.get("input_schema") for tool in body.get("tools") or [] if "name" in tool}
        asked.form = ((body.get("output_config") or {}).get("format") or {}).get("schema")
        return asked

    @staticmethod
    def refusal(status, message):
        kinds = {400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error"}
        return {"type": "error", "error": {"type": kinds.get(status, "api_error"), "message": message}}

    def usage(self):
        return {"input_tokens": self.read, "output_tokens": self.written,
                "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}

    def message(self, stop):
        return {"id": self.id, "type": "message", "role": "assistant", "model": self.asked.model,
                "content": self.blocks, "stop_reason": stop, "stop_sequence": None, "usage": self.usage()}

    def event(self, kind, **fields):
        return (kind, {"type": kind, **fields})

    def block(self, kind, empty, whole, delta):
        """Goes on with the open block if it is of that kind, else closes it and opens one."""
        events = []
        if not self.blocks or self.blocks[-1]["type"] != kind or kind == "tool_use":
            events += self.shut()
            self.blocks.append(dict(empty))
            events.append(self.event("content_block_start", index=len(self.blocks) - 1, content_block=dict(empty)))
        for field, value in whole.items():
            self.blocks[-1][field] = self.blocks[-1][field] + value if isinstance(value, str) else value
        events.append(self.event("content_block_delta", index=len(self.blocks) - 1, delta=delta))
        return events

    def shut(self):
        if not self.blocks:
            return []
        events = []
        if self.blocks[-1]["type"] == "thinking":
            self.blocks[-1]["signature"] = "bm9uZQ=="
            delta = {"type": "signature_delta", "signature": "bm9uZQ=="}
            events.append(self.event("content_block_delta", index=len(self.blocks) - 1, delta=delta))
        return events + [self.event("content_block_stop", index=len(self.blocks) - 1)]

    def open(self):
        return [self.event("message_start", message={**self.message(None), "content": []})]

    def thought(self, text):
        empty = {"type": "thinking", "thinking": "", "signature": ""}
        return self.block("thinking", empty, {"thinking": text}, {"type": "thinking_delta", "thinking": text})

    def text(self, text):
        return self.block("text", {"type": "text", "text": ""}, {"text": text}, {"type": "text_delta", "text": text})

    def call(self, call, name, arguments):
        empty = {"type": "tool_use", "id": call, "name": name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
        return self.block("tool_use", empty, {"input": arguments}, delta)

    def close(self):
        stop = {"stop_reason": "tool_use" if self.called else "end_turn", "stop_sequence": None}
        return self.shut() + [self.event("message_delta", delta=stop, usage=self.usage()), self.event("message_stop")]

    def whole(self):
        return self.message("tool_use" if self.called else "end_turn")


class Responses(Wire):
    def __init__(self, asked, answer):
        super().__init__(asked, answer)
        self.items = []
        self.number = 0

    @staticmethod
    def parse(body):
        asked = Asked(body.get("model"), body.get("stream"))
        given = body.get("input")
        for item in [{"role": "user", "content": given}] if isinstance(given, str) else given or []:
            kind = item.get("type", "message")
            if kind.endswith("_call_output"):
                asked.add("tool", texts(item.get("output")))
            elif kind.endswith("_call"):
                asked.add("model", ["call"])
            elif kind == "message" and item.get("role") in ("user", "assistant"):
                asked.add("user" if item["role"] == "user" else "model", texts(item.get("content")))
        asked.tools = {tool["name"]: tool.get("parameters") for tool in body.get("tools") or [] if tool.get("name")}
        asked.form = ((body.get("text") or {}).get("format") or {}).get("schema")
        return asked

    @staticmethod
    def refusal(status, message):
        return {"error": {"type": "invalid_request_error" if status < 500 else "server_error", "message": message}}

    def event(self, kind, **fields):
        self.number += 1
        return (kind, {"type": kind, "sequence_number": self.number, **fields})

    def response(self, status):
        usage = {"input_tokens": self.read, "input_tokens_details": {"cached_tokens": 0},
                 "output_tokens": self.written, "output_tokens_details": {"reasoning_tokens": 0},
                 "total_tokens": self.read + self.written}
        return {"id": self.id.replace("msg_", "resp_"), "object": "response", "status": status,
                "model": self.asked.model, "output": self.items, "usage": usage if status == "completed" else None}

    def item(self, item, begun):
        """Goes on with the open item of that type, or opens it."""
        if self.items and self.items[-1]["type"] == item["type"] and item["type"] != "function_call":
            return []
        events = self.shut() + [self.event("response.output_item.added", output_index=len(self.items), item=begun)]
        self.items.append(item)
        return events

    def shut(self):
        if not self.items:
            return []
        return [self.event("response.output_item.done", output_index=len(self.items) - 1, item=self.items[-1])]

    def place(self, **more):
        return {"item_id": self.items[-1]["id"], "output_index": len(self.items) - 1, **more}

    def open(self):
        return [self.event("response.created", response={**self.response("in_progress"), "output": []})]

    def thought(self, text):
        item = {"type": "reasoning", "id": fresh("rs_"), "summary": [{"type": "summary_text", "text": text}]}
        events = self.item(item, {**item, "summary": []})
        part = {"type": "summary_text", "text": ""}
        events.append(self.event("response.reasoning_summary_part.added", **self.place(summary_index=0, part=part)))
        events.append(self.event("response.reasoning_summary_text.delta", **self.place(summary_index=0, delta=text)))
        events.append(self.event("response.reasoning_summary_text.done", **self.place(summary_index=0, text=text)))
        return events

    def text(self, text):
        part = {"type": "output_text", "text": "", "annotations": []}
        item = {"type": "message", "id": fresh("msg_"), "role": "assistant", "status": "completed", "content": [part]}
        events = self.item(item, {**item, "status": "in_progress", "content": []})
        if events:
            events.append(self.event("response.content_part.added", **self.place(content_index=0, part=dict(part))))
        self.items[-1]["content"][0]["text"] += text
        return events + [self.event("response.output_text.delta", **self.place(content_index=0, delta=text))]

    def call(self, call, name, arguments):
        item = {"type": "function_call", "id": fresh("fc_"), "call_id": call, "name": name,
                "arguments": json.dumps(arguments), "status": "completed"}
        return self.item(item, {**item, "arguments": "", "status": "in_progress"})

    def close(self):
        return self.shut() + [self.event("response.completed", response=self.response("completed"))]

    def whole(self):
        return self.response("completed")


class Chat(Wire):
    def __init__(self, asked, answer):
        super().__init__(asked, answer)
        self.message = {"role": "assistant", "content": ""}

    @staticmethod
    def parse(body):
        asked = Asked(body.get("model"), body.get("stream"))
        for message in body.get("messages") or []:
            who = {"user": "user", "tool": "tool", "assistant": "model"}.get(message.get("role"))
            if who:
                asked.add(who, texts(message.get("content")) or (["call"] if who == "model" else []))
        functions = [tool.get("function") or {} for tool in body.get("tools") or []]
        asked.tools = {function["name"]: function.get("parameters") for function in functions if "name" in function}
        asked.wants_json = bool(body.get("response_format"))
        return asked

    refusal = staticmethod(Responses.refusal)

    def chunk(self, delta, finish=None, **more):
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return (None, {**self.frame("chat.completion.chunk"), "choices": [choice], **more})

    def frame(self, kind):
        return {"id": self.id.replace("msg_", "chatcmpl-"), "object": kind, "created": int(time.time()),
                "model": self.asked.model}

    def usage(self):
        return {"prompt_tokens": self.read, "completion_tokens": self.written, "total_tokens": self.read + self.written}

    def open(self):
        return [self.chunk({"role": "assistant", "content": ""})]

    def thought(self, text):
        return [self.chunk({"reasoning_content": text})]

    def text(self, text):
        self.message["content"] += text
        return [self.chunk({"content": text})]

    def call(self, call, name, arguments):
        calls = self.message.setdefault("tool_calls", [])
        function = {"name": name, "arguments": json.dumps(arguments)}
        calls.append({"id": call, "type": "function", "function": function})
        return [self.chunk({"tool_calls": [{"index": len(calls) - 1, **calls[-1]}]})]

    def close(self):
        finish = "tool_calls" if self.called else "stop"
        return [self.chunk({}, finish), self.chunk({}, usage=self.usage()), (None, "[DONE]")]

    def whole(self):
        finish = "tool_calls" if self.called else "stop"
        choice = {"index": 0, "message": self.message, "finish_reason": finish}
        return {**self.frame("chat.completion"), "choices": [choice], "usage": self.usage()}


class Gemini(Wire):
    def __init__(self, asked, answer):
        super().__init__(asked, answer)
        self.parts = []

    @staticmethod
    def parse(body):
        asked = Asked(None, False)
        for content in body.get("contents") or []:
            parts = content.get("parts") or []
            for part in parts:
                if "functionResponse" in part:
                    response = part["functionResponse"].get("response") or {}
                    said = response.get("output", response.get("error", response))
                    asked.add("tool", [said if isinstance(said, str) else json.dumps(said)])
            who = "model" if content.get("role") == "model" else "user"
            asked.add(who, texts(parts) or (["call"] if who == "model" else []))
        for tool in body.get("tools") or []:
            for function in tool.get("functionDeclarations") or []:
                asked.tools[function["name"]] = function.get("parametersJsonSchema") or function.get("parameters")
        config = body.get("generationConfig") or {}
        asked.form = config.get("responseJsonSchema") or config.get("responseSchema")
        asked.wants_json = config.get("responseMimeType") == "application/json"
        return asked

    @staticmethod
    def refusal(status, message):
        names = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}
        return {"error": {"code": status, "message": message, "status": names.get(status, "INTERNAL")}}

    def chunk(self, parts, finish=None):
        self.parts += parts
        return (None, self.candidate(parts, finish))

    def candidate(self, parts, finish):
        usage = {"promptTokenCount": self.read, "candidatesTokenCount": self.written,
                 "totalTokenCount": self.read + self.written}
        candidate = {"index": 0, "content": {"role": "model", "parts": parts}}
        if finish:
            candidate["finishReason"] = finish
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": self.asked.model,
                "responseId": self.id}

    def open(self):
        return []

    def thought(self, text):
        return [self.chunk([{"text": "**Thinking** " + text, "thought": True}])]

    def text(self, text):
        return [self.chunk([{"text": text}])]

    def call(self, call, name, arguments):
        return [self.chunk([{"functionCall": {"id": call, "name": name, "args": arguments}}])]

    def close(self):
        return [self.chunk([{"text": ""}], "STOP")]

    def whole(self):
        return self.candidate(self.parts, "STOP")


def wire_of(path):
    """The format a path belongs to, and `model:action` or an action where the path tells them."""
    if path.endswith("/messages"):
        return Anthropic, ""
    if path.endswith("/messages/count_tokens"):
        return Anthropic, ":count"
    if path.endswith("/responses"):
        return Responses, ""
    if path.endswith("/chat/completions"):
        return Chat, ""
    found = re.search(r"/models/([^/]+:(?:generateContent|streamGenerateContent|countTokens))$", path)
    return (Gemini, found.group(1)) if found else (None, "")

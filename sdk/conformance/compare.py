"""What came back against what was expected, and the results of one SDK against another's."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

SCHEMA = json.loads((Path(__file__).resolve().parent.parent / "schema" / "schema.json").read_text())
DEFS = SCHEMA["$defs"]
ANSWERS = {row["name"]: row["answer"] for rows in SCHEMA["operations"].values() for row in rows}
LISTS = {"topic_list": "topics", "peers": "peers", "file_list": "files", "agents_list": "agents", "session_list": "sessions"}
"""Operations whose answer the SDKs unwrap."""


class Mismatch(Exception):
    """Something else than was expected."""


def pointed(value: Any, pointer: str) -> Any:
    """What a JSON pointer leads to; a negative index counts from the end."""
    for part in pointer.split("/")[1:]:
        value = value[int(part)] if isinstance(value, list) else value[part]
    return value


def filled(pattern: Any, variables: dict[str, Any]) -> Any:
    if isinstance(pattern, str):
        for name, known in variables.items():
            pattern = pattern.replace("${" + name + "}", str(known))
        return pattern
    if isinstance(pattern, list):
        return [filled(item, variables) for item in pattern]
    if isinstance(pattern, dict):
        return {name: filled(item, variables) for name, item in pattern.items()}
    return pattern


def match(pattern: Any, value: Any, place: str = "") -> None:
    """Whether a value is as expected; an object may have more than its pattern."""
    if pattern == "$any":
        if value in (None, ""):
            raise Mismatch(f"{place}: nothing there")
        return
    if isinstance(pattern, dict) and "$match" in pattern:
        if not isinstance(value, str) or not re.search(pattern["$match"], value):
            raise Mismatch(f"{place}: {short(value)} does not match {pattern['$match']}")
        return
    if isinstance(pattern, dict) and "$contains" in pattern:
        for item in value if isinstance(value, list) else []:
            try:
                return match(pattern["$contains"], item)
            except Mismatch:
                continue
        raise Mismatch(f"{place}: nothing in {short(value)} is {short(pattern['$contains'])}")
    if isinstance(pattern, dict) and isinstance(value, dict):
        for name, part in pattern.items():
            match(part, value.get(name), f"{place}/{name}")
        return
    if isinstance(pattern, list) and isinstance(value, list):
        if len(pattern) != len(value):
            raise Mismatch(f"{place}: {len(value)} items instead of {len(pattern)}: {short(value)}")
        for index, part in enumerate(pattern):
            match(part, value[index], f"{place}/{index}")
        return
    if pattern != value or isinstance(pattern, bool) != isinstance(value, bool):
        raise Mismatch(f"{place}: {short(value)} instead of {short(pattern)}")


def check(step: dict[str, Any], line: dict[str, Any], variables: dict[str, Any]) -> None:
    """Checks the line a runner wrote for a step, and remembers what the step captures."""
    expected = step.get("expect", {})
    if "error" in expected:
        if "error" not in line:
            raise Mismatch(f"no refusal but {short(line.get('ok'))}")
        match(filled(expected["error"], variables), line["error"])
        return
    if "ok" not in line:
        raise Mismatch(f"refused: {short(line.get('error'))}")
    for name, pointer in step.get("capture", {}).items():
        variables[name] = pointed(line["ok"], pointer)
    if "ok" in expected:
        match(filled(expected["ok"], variables), line["ok"])


def comparable(step: dict[str, Any], line: dict[str, Any]) -> Any:
    """What has to be the same in every language: what the schema knows and what does not differ from run to run."""
    if "error" in line:
        # The texts of the house hold ids.
        return {"error": {name: value for name, value in line["error"].items() if name != "message"}}
    value = line["ok"]
    if "call" in step:
        answer = ANSWERS[step["call"]]
        if answer == "text/plain":
            return isinstance(value, str)
        if step["call"] in LISTS:
            value = {LISTS[step["call"]]: value}
        return steady(value, {"$ref": answer})
    if "take" in step:
        return [of_stream(item) for item in value]
    return value


def of_stream(item: dict[str, Any]) -> Any:
    if "type" in item:
        kind = SCHEMA["updates"].get(item["type"])
        return steady(item, {"$ref": kind}) if kind else item
    kind = SCHEMA["events"].get(item["name"])
    return {"name": item["name"], "data": steady(item["data"], {"$ref": kind}) if kind else item["data"]}


def steady(value: Any, schema: dict[str, Any]) -> Any:
    """A value without what differs from run to run; null, an empty text and nothing are the same."""
    if "$ref" in schema:
        schema = DEFS[schema["$ref"].rsplit("/", 1)[-1]]
    if isinstance(value, list):
        items = [steady(item, schema.get("items", {})) for item in value]
        return sorted(items, key=lambda item: json.dumps(item, sort_keys=True)) if "x-unordered" in schema else items
    if isinstance(value, dict) and "properties" in schema:
        known = {name: part for name, part in schema["properties"].items() if "x-volatile" not in part}
        found = {name: steady(value[name], part) for name, part in known.items() if name in value}
        return {name: part for name, part in found.items() if part is not None and part != ""}
    return value


def short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 400 else text[:400] + "…"

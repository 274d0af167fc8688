"""One SDK sends and listens while the daemons are killed and started again: each message comes exactly once."""

from __future__ import annotations

import json
import queue
import random
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path

from lab import Failed, Lab

WINDOW = 64
"""Messages that may be on their way."""
SETTLE_S = 120.0


def run(command: list[str], lab: Lab, seconds: float, seed: int, cwd: Path) -> str:
    """Runs the soak; gives the figures, or raises."""
    chance = random.Random(seed)
    runner = subprocess.Popen(
        [*command, "soak", str(lab.file())], cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert runner.stdin is not None and runner.stdout is not None
    lines: queue.Queue[dict[str, str]] = queue.Queue()

    def read() -> None:
        assert runner.stdout is not None
        for line in runner.stdout:
            lines.put(json.loads(line))
        lines.put({"ended": ""})

    threading.Thread(target=read, daemon=True).start()
    sent: set[str] = set()
    ordered: list[str] = []
    came: Counter[str] = Counter()
    ids: Counter[str] = Counter()
    kills = Counter[str]()
    stop = threading.Event()
    trouble: list[str] = []

    def disturb() -> None:
        while not stop.wait(chance.uniform(0.3, 2.5)):
            name = chance.choice(["alice", "bob", "bob"])
            try:
                lab.control(f"kill {name}")
                stop.wait(chance.choice([0.0, 0.0, 0.2, 1.0]))
                lab.control(f"start {name}")
            except Failed as error:
                trouble.append(str(error))
                return
            kills[name] += 1

    def take(line: dict[str, str]) -> None:
        if "sent" in line:
            sent.add(line["sent"])
        elif "failed" in line:
            raise Failed(f"{line['failed']} was refused: {line['error']}")
        elif "client_message_id" in line:
            came[line["client_message_id"]] += 1
            if line["event"]:
                ids[line["event"]] += 1
        elif "ended" in line:
            raise Failed(f"the runner ended with {runner.wait()}")

    disturbing = threading.Thread(target=disturb)
    try:
        if not lines.get(timeout=30).get("ready"):
            raise Failed("the runner is not ready")
        disturbing.start()
        end = time.monotonic() + seconds
        last = end + SETTLE_S
        while True:
            now = time.monotonic()
            done = now >= end and len(sent) == len(ordered) and sum(1 for id in sent if came[id]) == len(sent)
            if done or now > last:
                break
            if now >= end:
                stop.set()
            elif len(ordered) - len(sent) < WINDOW and sum(came.values()) + WINDOW > len(ordered):
                id = f"soak-{seed}-{len(ordered)}"
                ordered.append(id)
                text = "x" * chance.choice([3, 30, 3000])
                runner.stdin.write(json.dumps({"send": id, "to": "bob", "message": text}) + "\n")
                runner.stdin.flush()
            try:
                take(lines.get(timeout=0.002 if now < end else 0.2))
                while True:
                    take(lines.get_nowait())
            except queue.Empty:
                pass
        stop.set()
        disturbing.join()
        # What would come twice comes soon after.
        quiet = time.monotonic() + 2
        while time.monotonic() < quiet:
            try:
                take(lines.get(timeout=0.2))
            except queue.Empty:
                pass
    finally:
        stop.set()
        if disturbing.is_alive():
            disturbing.join()
        runner.stdin.close()
        try:
            runner.wait(10)
        except subprocess.TimeoutExpired:
            runner.kill()
            runner.wait()
    if trouble:
        raise Failed(trouble[0])
    missing = [id for id in ordered if id in sent and not came[id]]
    unsent = [id for id in ordered if id not in sent]
    doubled = [id for id, count in came.items() if count > 1] + [id for id, count in ids.items() if count > 1]
    known = set(ordered)
    strange = [id for id in came if id not in known]
    if missing or doubled or strange or unsent:
        raise Failed(
            f"{len(missing)} lost {missing[:5]}, {len(doubled)} doubled {doubled[:5]}, "
            f"{len(unsent)} not taken {unsent[:5]}, {len(strange)} that nobody sent {strange[:5]}"
        )
    return f"{len(sent)} messages, {sum(kills.values())} kills ({dict(kills)}): none lost, none doubled"

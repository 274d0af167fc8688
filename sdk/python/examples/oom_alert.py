"""Runs a worker and says so in a topic when the kernel kills it for its memory.

    python oom_alert.py ./worker --queue mail

Everybody who has subscribed to #alerts hears of it, also those whose machine is off at that moment.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
import uuid

from hostel_sdk import HostelError
from hostel_sdk.sync import Mesh


def main() -> int:
    run = uuid.uuid4().hex
    started = time.time()
    ended = subprocess.run(sys.argv[1:]).returncode
    # Killed with nobody's help: where memory is limited, that is what the kernel does.
    if ended in (-signal.SIGKILL, 128 + signal.SIGKILL):
        meta = {"command": sys.argv[1:], "exit": ended, "ran_s": round(time.time() - started, 1)}
        try:
            with Mesh() as mesh:
                mesh.subscribe("alerts")
                text = f"{sys.argv[1]} on {socket.gethostname()} was killed, probably out of memory"
                # The same id however often this is tried: one alert.
                mesh.post("alerts", text, priority="now", meta=meta, client_message_id=f"oom-{run}")
        except HostelError as error:
            print(f"oom_alert: nobody was told: {error}", file=sys.stderr)
    return ended if ended >= 0 else 128 - ended


if __name__ == "__main__":
    sys.exit(main())

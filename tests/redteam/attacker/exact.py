"""Attacks on what runs: files that are swapped after they were shown."""

import mmap, os

from doors import Request, attempt, ask, command, told, reached


def script(path, text):
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, 0o755)


def run(facts, step, argv):
    """Asks for a command, says when it was sent, and gives the request."""
    request = Request(facts, command(argv))
    reached(facts, f"{step}-asked")
    told(facts, f"{step}-shown")
    return request


def mapping(facts, step, directory):
    """Swaps bytes through a mapping that was made before the file was shown: no time of the file changes."""
    path = f"{directory}/tool-{step}-{os.getpid()}"
    good, evil = facts["good"], facts["evil"]
    # Larger than a script needs to be, so that some pages are never looked at by accident.
    script(path, f"#!/bin/sh\n# {'x' * 20000}\ntouch {good}\n")
    file = open(path, "r+b")
    mapped = mmap.mmap(file.fileno(), 0)
    at = mapped.find(good.encode())
    mapped[at:at + len(good)] = good.encode()
    before = os.stat(path)
    said = ask_control(facts, f"{step}-control", [path])
    request = run(facts, step, [path])
    mapped[at:at + len(evil)] = evil.encode()
    mapped.close()
    file.close()
    after = os.stat(path)
    unseen = all(getattr(before, name) == getattr(after, name) for name in ("st_ino", "st_size", "st_mtime_ns", "st_ctime_ns"))
    reached(facts, f"{step}-swapped")
    answer = request.answer()
    os.remove(path)
    return {"control": said, "unseen": unseen, "answer": answer}


def ask_control(facts, step, argv):
    """The same request while nobody swaps anything."""
    request = run(facts, step, argv)
    reached(facts, f"{step}-swapped")
    return request.answer()


def interpreter(facts, step):
    """Swaps the interpreter of a script."""
    own = f"{os.getcwd()}/interpreter-{step}-{os.getpid()}"
    path = f"{os.getcwd()}/script-{step}-{os.getpid()}"
    script(own, f"#!/bin/sh\ntouch {facts['good']}\n")
    script(path, f"#!{own}\n")
    said = ask_control(facts, f"{step}-control", [path])
    request = run(facts, step, [path])
    script(own, f"#!/bin/sh\ntouch {facts['evil']}\n")
    reached(facts, f"{step}-swapped")
    return {"control": said, "answer": request.answer()}


def rewrite(facts, step):
    """Writes other words over a script while it runs."""
    gate, path = f"{facts['signals']}/gate", f"{os.getcwd()}/rewrite-{step}-{os.getpid()}"
    os.mkfifo(gate)
    # Longer than what a shell reads ahead, so that it has not read the last line while it waits.
    text = lambda word: f"#!/bin/sh\nread -r line <{gate}\n# {'x' * 20000}\ntouch {word}\n"
    script(path, text(facts["good"]))
    request = run(facts, step, [path])
    reached(facts, f"{step}-swapped")
    # Opening it waits until the script runs and reads.
    with open(gate, "w") as opened:
        with open(path, "r+") as file:
            file.write(text(facts["evil"]))
        opened.write("\n")
    answer = request.answer()
    with open(path) as file:
        rewritten = facts["evil"] in file.read()
    return {"answer": answer, "rewritten": rewritten}


def swaps(facts):
    said = {step: attempt(mapping, facts, step, directory) for step, directory in facts["places"]}
    said["interpreter"] = attempt(interpreter, facts, "interpreter")
    said["rewrite"] = attempt(rewrite, facts, "rewrite")
    return said


def privileged(facts):
    """Asks root to run a script of one's own."""
    name = f"for-root-{os.getpid()}"
    path = f"{os.getcwd()}/{name}"
    script(path, f"#!/bin/sh\ntouch {facts['evil']}\n")
    said = []
    ways = (("program", [path]), ("argument", ["sh", path]), ("process", ["sh", f"/proc/self/root{path}"]),
            ("directory", ["env", "-C", os.getcwd(), "sh", name]), ("path", ["env", f"PATH={os.getcwd()}", name]),
            ("wrapper", ["prlimit", path]), ("option", ["find", "/etc", "-name", "passwd", "-exec", path, ";"]),
            ("cluster", ["sed", f"-nf{path}"]), ("many", ["prlimit", *(f"/no/file/{n}" for n in range(200)), path]))
    for step, argv in ways:
        request = Request(facts, command(argv, privileged=True))
        told(facts, f"{step}-decided")
        request.withdraw()
        said.append(argv)
    return said

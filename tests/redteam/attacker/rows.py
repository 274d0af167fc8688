"""Attacks on what the house keeps in files: rows of its database, its record, settings, the digest of the passphrase."""

import hashlib, json, os, pickle, select, shutil, signal, sqlite3, subprocess, time

from doors import Request, Rpc, attempt, call, command, database, told, reached


def keeper(facts):
    found = Rpc(facts).call("house/status")["result"]["keeper"]
    return f"{found['pid']} {found['since_ns']}"


def change(facts, statements, **values):
    """Runs statements, each for itself: the number of changed rows, or why not."""
    def run(statement):
        return database(facts).execute(statement, {name: values[name] for name in values if f":{name}" in statement}).rowcount
    return [attempt(run, statement) for statement in statements]


def poke(facts):
    """Something happens in the house: whoever waits looks again."""
    native = Rpc(facts)
    native.begin("approval/ask", question="poke")
    native.call("house/status")


def request(facts):
    """Asks for a command and changes the database while it waits."""
    waiting = Request(facts, command(facts["argv"]))
    identifier = told(facts, "go")
    changed = change(facts, facts["sql"], id=identifier, keeper=attempt(keeper, facts))
    attempt(poke, facts)
    reached(facts, "changed")
    if all(isinstance(one, dict) for one in changed) and not facts.get("waits"):
        waiting.withdraw()
        return {"changed": changed}
    return {"changed": changed, "answer": attempt(waiting.answer)}


def statements(facts):
    """Changes the database."""
    changed = change(facts, facts["sql"])
    attempt(poke, facts)
    return {"changed": changed}


def copy_row(facts, table, condition):
    row = database(facts).execute(f"SELECT * FROM {table} WHERE {condition}").fetchone()
    return dict(row)


def put_back(facts, table, row):
    names, places = ", ".join(row), ", ".join(f":{name}" for name in row)
    return database(facts).execute(f"INSERT OR REPLACE INTO {table} ({names}) VALUES ({places})", row).rowcount


def copy(facts):
    """Copies a row, and the whole database beside it, for later."""
    row = attempt(copy_row, facts, facts["table"], facts["condition"])
    with open(facts["copy"], "wb") as file:
        pickle.dump(row, file)

    def whole():
        target = sqlite3.connect(facts["copy"] + ".db")
        database(facts).backup(target)
        target.close()
        return "copied"
    return {"row": "failed" not in row, "whole": attempt(whole)}


def restore_row(facts):
    """Puts the row back that was copied, and asks again for what it allows."""
    with open(facts["copy"], "rb") as file:
        row = pickle.load(file)
    said = [attempt(put_back, facts, facts["table"], row)]
    said += change(facts, facts.get("sql", []))
    attempt(poke, facts)
    return {"changed": said}


def restore_database(facts):
    """Kills the daemon, puts the whole database back and starts the daemon again."""
    said = [attempt(os.kill, facts["daemon"], signal.SIGKILL)]
    if said == [None]:
        wait_gone(facts["daemon"])

    def write():
        for name in ("state.db-wal", "state.db-shm"):
            attempt(os.remove, f"{facts['house']}/{name}")
        shutil.copyfile(facts["copy"] + ".db", f"{facts['house']}/state.db")
        return "restored"
    said.append(attempt(write))
    words = [facts["hostel"], "--home", facts["house"], "up"]
    done = attempt(lambda: subprocess.run(words, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL))
    said.append(done if isinstance(done, dict) else {"code": done.returncode, "said": done.stderr})
    return {"said": said}


def wait_gone(pid):
    handle = os.pidfd_open(pid)
    select.select([handle], [], [], 20)


def again(facts):
    """Asks for a command, and says whether it ran unasked; it is withdrawn if somebody is asked."""
    waiting = Request(facts, command(facts["argv"], **facts.get("more", {})))
    waiting.stream.settimeout(facts.get("patience", 60))
    answer = attempt(waiting.answer) if facts.get("unasked") else None
    if answer is None:
        told(facts, "enough")
    waiting.withdraw()
    return {"answer": answer}


def insist(facts):
    """Asks for a command, and asks again in the same words whenever the connection is lost."""
    line = command(facts["argv"])
    while True:
        answer = attempt(lambda: Request(facts, line).answer())
        if "failed" not in answer and not answer.get("closed"):
            return {"answer": answer}
        time.sleep(0.05)


def kill_both(facts):
    """Forges an approval, then kills daemon and keeper, so that nobody remembers anything."""
    changed = change(facts, facts["sql"], id=facts["id"], keeper=attempt(keeper, facts))
    if facts.get("records"):
        changed.append(attempt(record_decision, facts))
    killed = [attempt(os.kill, pid, signal.SIGKILL) for pid in (facts["daemon"], facts["keeper"])]
    return {"changed": changed, "killed": killed}


def record(facts, kind, body):
    """Appends a record as the house would write it, with the right number and digest."""
    connection = database(facts)
    no, previous = connection.execute("SELECT no, digest FROM audit_head").fetchone()
    no, now = no + 1, time.time_ns()
    digest = hashlib.sha256(b"hostel audit 1\0" + no.to_bytes(8, "little") + now.to_bytes(8, "little"))
    for part in (kind.encode(), facts["id"].encode(), body.encode(), previous):
        digest.update(len(part).to_bytes(8, "little") + part)
    words = (no, now, kind, facts["id"], body, previous, digest.digest())
    connection.execute("INSERT INTO audit (no, time_ns, kind, approval, body, previous, digest) "
                       "VALUES (?, ?, ?, ?, ?, ?, ?)", words)
    return no


def record_decision(facts):
    """Appends the record of a decision that fits to a forged row."""
    row = database(facts).execute("SELECT digest FROM approvals WHERE id = ?", (facts["id"],)).fetchone()
    body = {"state": "approved", "decision": "allow_once", "decider": "the approver", "digest": row["digest"].hex()}
    return record(facts, "decided", json.dumps(body))


def append(facts):
    """Appends records of a decision and a start."""
    body = '{"state":"approved","decision":"allow_once","decider":"the approver"}'
    return {"written": [attempt(record, facts, "decided", body), attempt(record, facts, "started", "{}")]}


def replace_digest(facts):
    """Puts the digest of a passphrase of one's own in the place of the approver's, in the file and in its row."""
    def write():
        path = f"{facts['house']}/approver"
        with open(path, "w") as file:
            file.write(facts["digest"])
        os.chmod(path, 0o600)
        return "written"
    return {"file": attempt(write), "row": change(facts, ["UPDATE approver SET digest = :digest"], digest=facts["digest"].strip())}


def settings(facts):
    """Loosens the settings and kills the daemon, so that they are read."""
    path = f"{facts['house']}/hostel.toml"

    def write():
        with open(path) as file:
            text = file.read()
        with open(path, "w") as file:
            file.write(text.replace("strict = true", "strict = false") + facts["rule"])
        return "written"
    return {"file": attempt(write), "killed": attempt(os.kill, facts["daemon"], signal.SIGKILL)}


def question(facts):
    """Changes the database while the own agent waits for an answer."""
    identifier = told(facts, "go")
    changed = change(facts, facts["sql"], id=identifier)
    attempt(poke, facts)
    return {"changed": changed}

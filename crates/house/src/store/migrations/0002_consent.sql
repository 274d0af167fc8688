-- Consent in full: every kind of request, who asks, rules and grants, what became of it, and the audit.

-- What is asked: the whole subject as it was shown, and its digest. An agent's tool has it in `tool` and `input`.
ALTER TABLE approvals ADD COLUMN subject TEXT NOT NULL DEFAULT '';
ALTER TABLE approvals ADD COLUMN digest BLOB NOT NULL DEFAULT x'';
-- Who asks, and why, as told.
ALTER TABLE approvals ADD COLUMN requester TEXT NOT NULL DEFAULT '{}';
ALTER TABLE approvals ADD COLUMN reason TEXT NOT NULL DEFAULT '';
-- The rule or grant that decided; empty if a person did.
ALTER TABLE approvals ADD COLUMN rule TEXT NOT NULL DEFAULT '';
-- When a face first showed it, and the life that begins then: 0 once the clock runs.
ALTER TABLE approvals ADD COLUMN shown_ns INTEGER NOT NULL DEFAULT 0;
ALTER TABLE approvals ADD COLUMN life_ns INTEGER NOT NULL DEFAULT 0;
-- The door of a request that belongs to a connection, and the digest of the line that asked (its own id is in `request`).
ALTER TABLE approvals ADD COLUMN door TEXT NOT NULL DEFAULT '';
ALTER TABLE approvals ADD COLUMN line BLOB;
-- The processes that carry it out, one for each stage, and the keeper that was there when they were chosen.
ALTER TABLE approvals ADD COLUMN runs BLOB NOT NULL DEFAULT x'';
ALTER TABLE approvals ADD COLUMN keeper TEXT NOT NULL DEFAULT '';
-- none: nothing to carry out; due: approved; started: it runs, or did; over: the outcome is known.
ALTER TABLE approvals ADD COLUMN run TEXT NOT NULL DEFAULT 'none';
ALTER TABLE approvals ADD COLUMN outcome TEXT;

CREATE INDEX approvals_unfinished ON approvals (run) WHERE run IN ('due', 'started');

CREATE TABLE grants (
    no         INTEGER PRIMARY KEY AUTOINCREMENT,
    -- The request whose answer it was.
    approval   TEXT    NOT NULL,
    decider    TEXT    NOT NULL,
    terms      TEXT    NOT NULL,
    uses_left  INTEGER,
    used       INTEGER NOT NULL DEFAULT 0,
    created_ns INTEGER NOT NULL,
    expires_ns INTEGER NOT NULL,
    revoked_ns INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX grants_open ON grants (no) WHERE revoked_ns = 0;

-- Wrong passphrases in a row, how often that led to a pause, and until when there is one.
CREATE TABLE lockout (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    wrong    INTEGER NOT NULL,
    rounds   INTEGER NOT NULL,
    until_ns INTEGER NOT NULL
) STRICT;

INSERT INTO lockout (one, wrong, rounds, until_ns) VALUES (1, 0, 0, 0);

-- What was asked, decided and done: each record holds the digest of the one before.
CREATE TABLE audit (
    no       INTEGER PRIMARY KEY,
    time_ns  INTEGER NOT NULL,
    kind     TEXT    NOT NULL,
    approval TEXT    NOT NULL,
    body     TEXT    NOT NULL,
    previous BLOB    NOT NULL,
    digest   BLOB    NOT NULL
) STRICT;

-- The last record: without it nobody would notice that the end was cut off.
CREATE TABLE audit_head (
    one    INTEGER PRIMARY KEY CHECK (one = 1),
    no     INTEGER NOT NULL,
    digest BLOB    NOT NULL
) STRICT;

INSERT INTO audit_head (one, no, digest) VALUES (1, 0, zeroblob(32));

CREATE TRIGGER audit_in_order BEFORE INSERT ON audit
WHEN NOT EXISTS (SELECT 1 FROM audit_head WHERE no = NEW.no - 1 AND digest = NEW.previous)
BEGIN SELECT RAISE(ABORT, 'a record of the audit follows the last one'); END;

CREATE TRIGGER audit_head_follows AFTER INSERT ON audit
BEGIN UPDATE audit_head SET no = NEW.no, digest = NEW.digest; END;

CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;

CREATE TRIGGER audit_is_not_deleted BEFORE DELETE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;

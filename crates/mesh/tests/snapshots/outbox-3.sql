-- version 3
CREATE INDEX outbox_failed ON outbox (status) WHERE status IN ('dead', 'aborted');
CREATE INDEX outbox_owed ON outbox (expires_at) WHERE owed IS NOT NULL;
CREATE TABLE confirmed (
    epoch TEXT    NOT NULL PRIMARY KEY,
    seq   INTEGER NOT NULL
, entry_id TEXT) STRICT, WITHOUT ROWID;
CREATE TABLE facts (
    name  TEXT NOT NULL PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE outbox (
    no                  INTEGER PRIMARY KEY,
    client_message_id   TEXT    NOT NULL UNIQUE,
    -- Made when the request was accepted, never made again.
    request_fingerprint BLOB    NOT NULL,
    -- NULL: the member itself. Else the session that sends.
    sender_session      TEXT,
    dest_kind           TEXT    NOT NULL,
    dest_ref            TEXT    NOT NULL,
    priority            TEXT    NOT NULL,
    -- Not a list with IN: for that SQLite makes and fills a table of its own at every insert.
    status              TEXT    NOT NULL CHECK (status = 'pending' OR status = 'inflight' OR status = 'done'
                                                OR status = 'dead' OR status = 'aborted'),
    -- 1 while it is pending or under way, else NULL: so the index below does not change when a row gets under way.
    owed                INTEGER DEFAULT 1,
    enqueued_at         INTEGER NOT NULL,
    expires_at          INTEGER NOT NULL,
    attempts            INTEGER NOT NULL DEFAULT 0,
    next_attempt_at     INTEGER NOT NULL DEFAULT 0,
    last_error_code     TEXT,
    last_error          TEXT,
    delivered_at        INTEGER,
    broker_message_id   TEXT,
    broker_epoch        TEXT,
    broker_seq          INTEGER,
    aborted_at          INTEGER,
    aborted_by          TEXT,
    superseded_by       TEXT,
    -- The plaintext request: it is sealed again when it is sent again.
    payload             BLOB    NOT NULL
, origin TEXT) STRICT;
CREATE TABLE owner (
    only_one INTEGER PRIMARY KEY CHECK (only_one = 1),
    member   TEXT    NOT NULL
) STRICT;

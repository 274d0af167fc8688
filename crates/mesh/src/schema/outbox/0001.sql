-- What was accepted and is owed to the broker. `no` is the order of acceptance; a row's id is made of it and of
-- `enqueued_at`, so it needs no column and no index of its own. Times are milliseconds since 1970.
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
) STRICT;

-- What is still owed: read at the start, and by age.
CREATE INDEX outbox_owed ON outbox (expires_at) WHERE owed IS NOT NULL;

-- What an operator looks for.
CREATE INDEX outbox_failed ON outbox (status) WHERE status IN ('dead', 'aborted');

-- The furthest place in each log that the broker has confirmed: a log that ends before it has lost something.
CREATE TABLE confirmed (
    epoch TEXT    NOT NULL PRIMARY KEY,
    seq   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

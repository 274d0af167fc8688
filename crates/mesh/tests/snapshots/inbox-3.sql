-- version 3
CREATE INDEX inbox_files ON inbox (no) WHERE file IS NOT NULL;
CREATE INDEX inbox_key_pending ON inbox (topic_id, key_epoch) WHERE decrypt_state = 'key_pending';
CREATE INDEX inbox_received ON inbox (received_at);
CREATE INDEX inbox_sender ON inbox (sender_member_id, received_at);
CREATE INDEX inbox_sender_key ON inbox (sender_pubkey, received_at);
CREATE INDEX inbox_sender_member_key ON inbox (sender_member_pubkey, received_at) WHERE sender_member_pubkey IS NOT NULL;
CREATE INDEX inbox_sender_name ON inbox (sender_name COLLATE NOCASE, received_at);
CREATE INDEX inbox_session ON inbox (recipient_session, received_at) WHERE recipient_session IS NOT NULL;
CREATE INDEX inbox_topic ON inbox (topic, received_at) WHERE topic IS NOT NULL;
CREATE INDEX inbox_unseen ON inbox (received_at, topic) WHERE seen_at IS NULL;
CREATE TABLE announced_files (
    file_id          TEXT    NOT NULL,
    sender_member_id TEXT    NOT NULL,
    sha256           TEXT    NOT NULL,
    verified         INTEGER NOT NULL,
    announced_at     INTEGER NOT NULL,
    PRIMARY KEY (file_id, sender_member_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE authors (
    member_id  TEXT    NOT NULL PRIMARY KEY,
    -- The key that counts, and those that are proven to have come before it, as JSON.
    pubkey     TEXT    NOT NULL,
    earlier    TEXT    NOT NULL,
    -- The key was replaced, and nobody but the broker says so.
    unproven   INTEGER NOT NULL,
    -- As the member has signed it, and when.
    name       TEXT,
    name_at    INTEGER NOT NULL,
    -- From this entry of the log on everything must be proven. NULL: the member has never proven anything.
    signs_from INTEGER
) STRICT, WITHOUT ROWID;
CREATE TABLE cursor (
    only_one INTEGER PRIMARY KEY CHECK (only_one = 1),
    epoch    TEXT    NOT NULL,
    seq      INTEGER NOT NULL,
    above    TEXT    NOT NULL
, entry_seq INTEGER, entry_id TEXT) STRICT;
CREATE TABLE events (
    n       INTEGER PRIMARY KEY,
    boot    TEXT    NOT NULL,
    ts      INTEGER NOT NULL,
    name    TEXT    NOT NULL,
    row     INTEGER,
    topic   TEXT,
    session TEXT,
    data    TEXT
) STRICT;
CREATE TABLE facts (
    name  TEXT NOT NULL PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE inbox (
    no                   INTEGER PRIMARY KEY,
    mesh                 TEXT    NOT NULL,
    sender_member_id     TEXT    NOT NULL,
    client_message_id    TEXT    NOT NULL,
    broker_message_id    TEXT    NOT NULL,
    broker_seq           INTEGER NOT NULL,
    kind                 TEXT    NOT NULL,
    topic                TEXT,
    sender_pubkey        TEXT    NOT NULL,
    -- NULL: the same as `sender_pubkey`.
    sender_member_pubkey TEXT,
    sender_name          TEXT    NOT NULL,
    body                 TEXT,
    meta                 TEXT,
    priority             TEXT    NOT NULL,
    -- NULL: nobody.
    mentions             TEXT,
    mention              INTEGER NOT NULL DEFAULT 0,
    reply_to_id          TEXT,
    file                 TEXT,
    created_at           INTEGER,
    -- When the row was made, for its id.
    stored_at            INTEGER NOT NULL,
    received_at          INTEGER NOT NULL,
    seen_at              INTEGER,
    recipient_pubkey     TEXT,
    -- NULL: the member. Else the session it is for.
    recipient_session    TEXT,
    -- NULL: readable. Else key_pending, failed, mismatch, or deleted (kept so that it does not come again).
    decrypt_state        TEXT,
    -- What is needed to open it later.
    topic_id             TEXT,
    key_epoch            INTEGER,
    body_version         INTEGER,
    request_fingerprint  TEXT,
    nonce                TEXT,
    ciphertext           TEXT, verified INTEGER NOT NULL DEFAULT 0, group_name TEXT, in_order INTEGER NOT NULL DEFAULT 0,
    UNIQUE (mesh, sender_member_id, client_message_id)
) STRICT;
CREATE VIRTUAL TABLE inbox_fts USING fts5 (
    topic, sender_name, body, meta,
    content = 'inbox', content_rowid = 'no', columnsize = 0, tokenize = 'unicode61 remove_diacritics 2'
);
CREATE TABLE 'inbox_fts_config'(k PRIMARY KEY, v) WITHOUT ROWID;
CREATE TABLE 'inbox_fts_data'(id INTEGER PRIMARY KEY, block BLOB);
CREATE TABLE 'inbox_fts_idx'(segid, term, pgno, PRIMARY KEY(segid, term)) WITHOUT ROWID;
CREATE TRIGGER inbox_added AFTER INSERT ON inbox BEGIN
    INSERT INTO inbox_fts (rowid, topic, sender_name, body, meta)
    VALUES (new.no, new.topic, new.sender_name, new.body, new.meta);
END;
CREATE TRIGGER inbox_changed AFTER UPDATE OF topic, sender_name, body, meta ON inbox BEGIN
    INSERT INTO inbox_fts (inbox_fts, rowid, topic, sender_name, body, meta)
    VALUES ('delete', old.no, old.topic, old.sender_name, old.body, old.meta);
    INSERT INTO inbox_fts (rowid, topic, sender_name, body, meta)
    VALUES (new.no, new.topic, new.sender_name, new.body, new.meta);
END;
CREATE TRIGGER inbox_removed AFTER DELETE ON inbox BEGIN
    INSERT INTO inbox_fts (inbox_fts, rowid, topic, sender_name, body, meta)
    VALUES ('delete', old.no, old.topic, old.sender_name, old.body, old.meta);
END;

-- What has come. A row's id is made of its number and of `stored_at`, so it needs no column and no index of its own.
-- Times are milliseconds since 1970.
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
    ciphertext           TEXT,
    UNIQUE (mesh, sender_member_id, client_message_id)
) STRICT;

CREATE INDEX inbox_received ON inbox (received_at);
CREATE INDEX inbox_topic ON inbox (topic, received_at) WHERE topic IS NOT NULL;
-- A member keeps its id when its key changes.
CREATE INDEX inbox_sender ON inbox (sender_member_id, received_at);
CREATE INDEX inbox_unseen ON inbox (received_at, topic) WHERE seen_at IS NULL;
CREATE INDEX inbox_session ON inbox (recipient_session, received_at) WHERE recipient_session IS NOT NULL;
CREATE INDEX inbox_key_pending ON inbox (topic_id, key_epoch) WHERE decrypt_state = 'key_pending';

-- Searched newest first, so nothing is ranked and no sizes are kept.
CREATE VIRTUAL TABLE inbox_fts USING fts5 (
    topic, sender_name, body, meta,
    content = 'inbox', content_rowid = 'no', columnsize = 0, tokenize = 'unicode61 remove_diacritics 2'
);

-- Parts of the index are merged late: a search through a hundred parts is quick, merging them again and again is not.
INSERT INTO inbox_fts (inbox_fts, rank) VALUES ('automerge', 16);
INSERT INTO inbox_fts (inbox_fts, rank) VALUES ('crisismerge', 64);

CREATE TRIGGER inbox_added AFTER INSERT ON inbox BEGIN
    INSERT INTO inbox_fts (rowid, topic, sender_name, body, meta)
    VALUES (new.no, new.topic, new.sender_name, new.body, new.meta);
END;

CREATE TRIGGER inbox_removed AFTER DELETE ON inbox BEGIN
    INSERT INTO inbox_fts (inbox_fts, rowid, topic, sender_name, body, meta)
    VALUES ('delete', old.no, old.topic, old.sender_name, old.body, old.meta);
END;

CREATE TRIGGER inbox_changed AFTER UPDATE OF topic, sender_name, body, meta ON inbox BEGIN
    INSERT INTO inbox_fts (inbox_fts, rowid, topic, sender_name, body, meta)
    VALUES ('delete', old.no, old.topic, old.sender_name, old.body, old.meta);
    INSERT INTO inbox_fts (rowid, topic, sender_name, body, meta)
    VALUES (new.no, new.topic, new.sender_name, new.body, new.meta);
END;

-- Up to where everything of the log that concerns us is stored, and what is stored above that.
CREATE TABLE cursor (
    only_one INTEGER PRIMARY KEY CHECK (only_one = 1),
    epoch    TEXT    NOT NULL,
    seq      INTEGER NOT NULL,
    above    TEXT    NOT NULL
) STRICT;

-- The last events. The newest is never deleted: the numbers go on from it. A message's event only names its row.
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

-- Small facts: whether it was closed, when it was last vacuumed.
CREATE TABLE facts (
    name  TEXT NOT NULL PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- version 5
CREATE INDEX audiences_by_last ON audiences (last_place);
CREATE INDEX audit_by_mesh ON audit (mesh, no);
CREATE UNIQUE INDEX dedupe_by_id ON dedupe (log, sender, client_id);
CREATE INDEX log_by_topic ON log (dest, place) WHERE kind = 'topic';
CREATE INDEX log_direct_from ON log (sender, place) WHERE kind IN ('dm', 'file');
CREATE INDEX log_direct_to ON log (dest, place) WHERE kind IN ('dm', 'file');
CREATE INDEX log_urgent ON log (place) WHERE priority = 0;
CREATE TABLE audience_members (
    no      INTEGER PRIMARY KEY,
    members TEXT    NOT NULL
) STRICT;
CREATE TABLE audiences (
    no         INTEGER PRIMARY KEY,
    log        INTEGER NOT NULL,
    digest     BLOB    NOT NULL,
    -- The last entry for it: with that entry it goes.
    last_place INTEGER NOT NULL,
    -- What is counted for it in `logs.bytes`.
    bytes      INTEGER NOT NULL,
    UNIQUE (log, digest)
) STRICT;
CREATE TABLE audit (
    no       INTEGER PRIMARY KEY,
    time_ms  INTEGER NOT NULL,
    mesh     TEXT    NOT NULL,
    kind     TEXT    NOT NULL,
    actor    TEXT    NOT NULL,
    subject  TEXT    NOT NULL,
    body     TEXT    NOT NULL,
    previous BLOB    NOT NULL,
    digest   BLOB    NOT NULL
) STRICT;
CREATE TABLE audit_base (
    one    INTEGER PRIMARY KEY CHECK (one = 1),
    no     INTEGER NOT NULL,
    digest BLOB    NOT NULL
) STRICT;
CREATE TABLE audit_head (
    one    INTEGER PRIMARY KEY CHECK (one = 1),
    no     INTEGER NOT NULL,
    digest BLOB    NOT NULL
) STRICT;
CREATE TABLE dedupe (
    place       INTEGER PRIMARY KEY,
    log         INTEGER NOT NULL,
    sender      TEXT    NOT NULL,
    client_id   TEXT    NOT NULL,
    fingerprint BLOB    NOT NULL,
    id          TEXT    NOT NULL,
    ts_ms       INTEGER NOT NULL,
    forget_ms   INTEGER NOT NULL
) STRICT;
CREATE TABLE kv (
    bucket   TEXT    NOT NULL,
    key      TEXT    NOT NULL,
    revision INTEGER NOT NULL,
    value    BLOB    NOT NULL,
    PRIMARY KEY (bucket, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE kv_revision (
    one  INTEGER PRIMARY KEY CHECK (one = 1),
    last INTEGER NOT NULL
) STRICT;
CREATE TABLE log (
    place       INTEGER PRIMARY KEY,
    id          TEXT    NOT NULL,
    ts_ms       INTEGER NOT NULL,
    kind        TEXT    NOT NULL,
    dest        TEXT    NOT NULL,
    sender      TEXT    NOT NULL,
    client_id   TEXT    NOT NULL,
    fingerprint BLOB    NOT NULL,
    -- 0: now, 1: next, 2: low.
    priority    INTEGER NOT NULL,
    -- Who was in the group, ids with spaces between.
    audience    TEXT    NOT NULL,
    expires_ms  INTEGER NOT NULL,
    body        BLOB    NOT NULL
) STRICT;
CREATE TABLE logs (
    no        INTEGER PRIMARY KEY,
    mesh      TEXT    NOT NULL UNIQUE,
    -- Random, made with the log: a reader that knows another one starts again.
    epoch     TEXT    NOT NULL,
    first_seq INTEGER NOT NULL DEFAULT 1,
    last_seq  INTEGER NOT NULL DEFAULT 0
, bytes INTEGER NOT NULL DEFAULT 0) STRICT;

-- version 8
CREATE INDEX agent_processes_by_session ON agent_processes (session);
CREATE INDEX agent_processes_live ON agent_processes (session) WHERE state <> 'ended';
CREATE UNIQUE INDEX approvals_by_question ON approvals (process, request, seq) WHERE process IS NOT NULL;
CREATE INDEX approvals_open ON approvals (no) WHERE open = 1;
CREATE INDEX approvals_pending ON approvals (state) WHERE state = 'pending';
CREATE INDEX approvals_unfinished ON approvals (run) WHERE run IN ('due', 'started');
CREATE INDEX grants_open ON grants (no) WHERE open = 1;
CREATE INDEX mail_asked ON mail (session, approval) WHERE state = 'asked';
CREATE INDEX mail_by_approval ON mail (approval) WHERE state = 'asked';
CREATE INDEX mail_by_session ON mail (session) WHERE session IS NOT NULL;
CREATE UNIQUE INDEX sessions_by_address ON sessions (address) WHERE address IS NOT NULL;
CREATE INDEX sessions_by_standing ON sessions (standing, active_ns);
CREATE INDEX turns_open ON turns (session, turn) WHERE state IN ('queued', 'running');
CREATE INDEX turns_untold ON turns (session, turn) WHERE state = 'cancelled' AND told = 0;
CREATE TABLE agent_processes (
    id         BLOB    NOT NULL PRIMARY KEY,
    session    INTEGER NOT NULL REFERENCES sessions (no) ON DELETE CASCADE,
    setup      TEXT    NOT NULL,
    -- chosen: to be started under this id; live: it was; ended: it serves nobody any more.
    state      TEXT    NOT NULL,
    -- Taken between turns: the driver's state, and how far its journal (frames up to seq, and this many bytes of the
    -- next one) and its input had been read then.
    saved      TEXT,
    seq        INTEGER NOT NULL DEFAULT 0,
    skip       INTEGER NOT NULL DEFAULT 0,
    stdin      INTEGER NOT NULL DEFAULT 0,
    created_ns INTEGER NOT NULL
, seal BLOB NOT NULL DEFAULT x'') STRICT, WITHOUT ROWID;
CREATE TABLE approvals (
    no         INTEGER PRIMARY KEY AUTOINCREMENT,
    id         TEXT    NOT NULL UNIQUE,
    kind       TEXT    NOT NULL,
    session    INTEGER REFERENCES sessions (no) ON DELETE CASCADE,
    turn       INTEGER NOT NULL DEFAULT 0,
    process    BLOB,
    request    TEXT    NOT NULL,
    -- The number of the event that asked: agents may use the id of a question again once it is settled.
    seq        INTEGER NOT NULL DEFAULT 0,
    tool       TEXT    NOT NULL,
    input      TEXT    NOT NULL,
    summary    TEXT    NOT NULL,
    state      TEXT    NOT NULL,
    created_ns INTEGER NOT NULL,
    expires_ns INTEGER NOT NULL,
    decided_ns INTEGER NOT NULL DEFAULT 0,
    decision   TEXT,
    decider    TEXT    NOT NULL DEFAULT ''
, subject TEXT NOT NULL DEFAULT '', digest BLOB NOT NULL DEFAULT x'', requester TEXT NOT NULL DEFAULT '{}', reason TEXT NOT NULL DEFAULT '', rule TEXT NOT NULL DEFAULT '', shown_ns INTEGER NOT NULL DEFAULT 0, life_ns INTEGER NOT NULL DEFAULT 0, door TEXT NOT NULL DEFAULT '', line BLOB, runs BLOB NOT NULL DEFAULT x'', keeper TEXT NOT NULL DEFAULT '', run TEXT NOT NULL DEFAULT 'none', outcome TEXT, open INTEGER NOT NULL DEFAULT 0, seal BLOB NOT NULL DEFAULT x'') STRICT;
CREATE TABLE approver (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    digest   TEXT,
    previous TEXT,
    seal     BLOB    NOT NULL
, doubt TEXT, key TEXT) STRICT;
CREATE TABLE audit (
    no       INTEGER PRIMARY KEY,
    time_ns  INTEGER NOT NULL,
    kind     TEXT    NOT NULL,
    approval TEXT    NOT NULL,
    body     TEXT    NOT NULL,
    previous BLOB    NOT NULL,
    digest   BLOB    NOT NULL
) STRICT;
CREATE TABLE audit_endorsements (
    first       INTEGER PRIMARY KEY,
    endorsement TEXT    NOT NULL
) STRICT;
CREATE TABLE audit_head (
    one    INTEGER PRIMARY KEY CHECK (one = 1),
    no     INTEGER NOT NULL,
    digest BLOB    NOT NULL
) STRICT;
CREATE TABLE audit_segments (
    first     INTEGER PRIMARY KEY,
    last      INTEGER NOT NULL,
    signature BLOB    NOT NULL
) STRICT;
CREATE TABLE door_state (
    session INTEGER NOT NULL REFERENCES sessions (no) ON DELETE CASCADE,
    door    TEXT    NOT NULL,
    state   TEXT    NOT NULL,
    PRIMARY KEY (session, door)
) STRICT, WITHOUT ROWID;
CREATE TABLE events (
    session   INTEGER NOT NULL REFERENCES sessions (no) ON DELETE CASCADE,
    first_seq INTEGER NOT NULL,
    last_seq  INTEGER NOT NULL,
    body      BLOB    NOT NULL,
    PRIMARY KEY (session, first_seq)
) STRICT, WITHOUT ROWID;
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
, open INTEGER NOT NULL DEFAULT 0, seal BLOB NOT NULL DEFAULT x'') STRICT;
CREATE TABLE lockout (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    wrong    INTEGER NOT NULL,
    rounds   INTEGER NOT NULL,
    until_ns INTEGER NOT NULL
, seal BLOB NOT NULL DEFAULT x'') STRICT;
CREATE TABLE mail (
    no       INTEGER PRIMARY KEY AUTOINCREMENT,
    -- The mesh's own id, the member that sent it, and that member's id of it.
    mesh     TEXT    NOT NULL,
    sender   TEXT    NOT NULL,
    message  TEXT    NOT NULL,
    session  INTEGER REFERENCES sessions (no) ON DELETE SET NULL,
    -- queued: it is a prompt; asked: a person is asked, or has agreed and there was no room yet; declined: nobody agreed;
    -- kept: it is too long for a prompt.
    state    TEXT    NOT NULL,
    -- The request, while it is one.
    approval TEXT,
    turn     INTEGER NOT NULL DEFAULT 0,
    taken_ns INTEGER NOT NULL,
    UNIQUE (mesh, sender, message)
) STRICT;
CREATE TABLE mail_places (
    session INTEGER NOT NULL REFERENCES sessions (no) ON DELETE CASCADE,
    mesh    TEXT    NOT NULL,
    place   TEXT    NOT NULL,
    PRIMARY KEY (session, mesh)
) STRICT, WITHOUT ROWID;
CREATE TABLE policy (
    one         INTEGER PRIMARY KEY CHECK (one = 1),
    text        TEXT    NOT NULL,
    unproved    INTEGER NOT NULL,
    endorsed    TEXT,
    endorsement TEXT,
    seal        BLOB    NOT NULL
) STRICT;
CREATE TABLE sessions (
    no            INTEGER PRIMARY KEY AUTOINCREMENT,
    id            TEXT    NOT NULL UNIQUE,
    name          TEXT,
    agent         TEXT    NOT NULL,
    kind          TEXT    NOT NULL,
    door          TEXT    NOT NULL,
    owner         TEXT,
    cwd           BLOB    NOT NULL,
    mode          TEXT    NOT NULL,
    model         TEXT,
    model_told    TEXT,
    cli_session   TEXT,
    hosting       TEXT    NOT NULL,
    standing      TEXT    NOT NULL,
    env           BLOB    NOT NULL,
    approval_wait INTEGER NOT NULL,
    created_ns    INTEGER NOT NULL,
    active_ns     INTEGER NOT NULL,
    closed_ns     INTEGER NOT NULL DEFAULT 0,
    last_seq      INTEGER NOT NULL DEFAULT 0,
    usage         TEXT    NOT NULL DEFAULT '{}'
, address TEXT, mesh TEXT NOT NULL DEFAULT 'off', mesh_since INTEGER NOT NULL DEFAULT 0, made_by TEXT, seal BLOB NOT NULL DEFAULT x'', guard TEXT) STRICT;
CREATE TABLE sqlite_sequence(name,seq);
CREATE TABLE turns (
    session    INTEGER NOT NULL REFERENCES sessions (no) ON DELETE CASCADE,
    turn       INTEGER NOT NULL,
    prompt     TEXT    NOT NULL,
    door       TEXT    NOT NULL,
    state      TEXT    NOT NULL,
    cause      TEXT,
    process    BLOB,
    -- The turn's place in the journal of its process: frames after from_seq, up to to_seq.
    from_seq   INTEGER NOT NULL DEFAULT 0,
    to_seq     INTEGER NOT NULL DEFAULT 0,
    -- The number of its first event.
    first_seq  INTEGER NOT NULL DEFAULT 0,
    -- A prompt that was cancelled while it waited is told of when nothing runs.
    told       INTEGER NOT NULL DEFAULT 0,
    answer     TEXT    NOT NULL DEFAULT '',
    usage      TEXT    NOT NULL DEFAULT '{}',
    queued_ns  INTEGER NOT NULL,
    started_ns INTEGER NOT NULL DEFAULT 0,
    ended_ns   INTEGER NOT NULL DEFAULT 0, seal BLOB NOT NULL DEFAULT x'', unproved INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (session, turn)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER audit_head_follows AFTER INSERT ON audit
BEGIN UPDATE audit_head SET no = NEW.no, digest = NEW.digest; END;
CREATE TRIGGER audit_in_order BEFORE INSERT ON audit
WHEN NOT EXISTS (SELECT 1 FROM audit_head WHERE no = NEW.no - 1 AND digest = NEW.previous)
BEGIN SELECT RAISE(ABORT, 'a record of the audit follows the last one'); END;
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;
CREATE TRIGGER audit_is_not_deleted BEFORE DELETE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;

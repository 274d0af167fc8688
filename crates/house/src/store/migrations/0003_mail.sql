-- Sessions as peers of a mesh: an address each, whether messages become prompts, and what was taken from mailboxes.

-- The second half of `host/name`; no two sessions have the same. A session of an older program gets one when it is next
-- looked at.
ALTER TABLE sessions ADD COLUMN address TEXT;
-- off: messages only lie in the mailbox; ask: a person is asked about each; on: each is a prompt.
ALTER TABLE sessions ADD COLUMN mesh TEXT NOT NULL DEFAULT 'off';
-- Since when, milliseconds of wall clock: what came before stays in the mailbox.
ALTER TABLE sessions ADD COLUMN mesh_since INTEGER NOT NULL DEFAULT 0;

CREATE UNIQUE INDEX sessions_by_address ON sessions (address) WHERE address IS NOT NULL;

-- A message that was taken, once and for ever: the row is written with the prompt or the request it became.
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

CREATE INDEX mail_asked ON mail (session, approval) WHERE state = 'asked';
CREATE INDEX mail_by_approval ON mail (approval) WHERE state = 'asked';
CREATE INDEX mail_by_session ON mail (session) WHERE session IS NOT NULL;

-- How far a session's mailbox in a mesh was read: the place of the last message that was taken.
CREATE TABLE mail_places (
    session INTEGER NOT NULL REFERENCES sessions (no) ON DELETE CASCADE,
    mesh    TEXT    NOT NULL,
    place   TEXT    NOT NULL,
    PRIMARY KEY (session, mesh)
) STRICT, WITHOUT ROWID;

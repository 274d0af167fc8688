-- What proves that the house itself wrote a row, and that the row is the newest of its kind; see `crates/house/src/seals`.

-- 1 while the request can still have an effect: it waits, it is to be carried out, or its answer is to be told.
ALTER TABLE approvals ADD COLUMN open INTEGER NOT NULL DEFAULT 0;
ALTER TABLE approvals ADD COLUMN seal BLOB NOT NULL DEFAULT x'';
UPDATE approvals SET open = 1 WHERE state = 'pending' OR run IN ('due', 'started')
    OR EXISTS (SELECT 1 FROM agent_processes
               WHERE agent_processes.id = approvals.process AND agent_processes.state <> 'ended')
    OR EXISTS (SELECT 1 FROM mail WHERE mail.approval = approvals.id AND mail.state = 'asked');
CREATE INDEX approvals_open ON approvals (no) WHERE open = 1;

-- 1 while the grant can be used.
ALTER TABLE grants ADD COLUMN open INTEGER NOT NULL DEFAULT 0;
ALTER TABLE grants ADD COLUMN seal BLOB NOT NULL DEFAULT x'';
UPDATE grants SET open = 1 WHERE revoked_ns = 0 AND (uses_left IS NULL OR uses_left > 0);
DROP INDEX grants_open;
CREATE INDEX grants_open ON grants (no) WHERE open = 1;

ALTER TABLE lockout ADD COLUMN seal BLOB NOT NULL DEFAULT x'';

-- Of the mode and the mesh policy of a session, of who made it, and of its guard.
ALTER TABLE sessions ADD COLUMN seal BLOB NOT NULL DEFAULT x'';
-- The guard that the processes of a session have at least, where somebody inside the house made it, as JSON.
ALTER TABLE sessions ADD COLUMN guard TEXT;
-- Of how the process is to be started.
ALTER TABLE agent_processes ADD COLUMN seal BLOB NOT NULL DEFAULT x'';

-- The digest of the approver's passphrase that is in force (none: there is no passphrase), and the one before it.
CREATE TABLE approver (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    digest   TEXT,
    previous TEXT,
    seal     BLOB    NOT NULL
) STRICT;

-- The settings about consent that are in force, as text; those that were last endorsed with the approver's passphrase, and
-- the endorsement. Unproved: the key was lost, and the passphrase has not been shown since.
CREATE TABLE policy (
    one         INTEGER PRIMARY KEY CHECK (one = 1),
    text        TEXT    NOT NULL,
    unproved    INTEGER NOT NULL,
    endorsed    TEXT,
    endorsement TEXT,
    seal        BLOB    NOT NULL
) STRICT;

-- The audit in segments, one for each lifetime of the keeper: the record that begins it, the key that verifies it, and the
-- signature of its last record.
CREATE TABLE audit_segments (
    first     INTEGER PRIMARY KEY,
    last      INTEGER NOT NULL,
    signature BLOB    NOT NULL
) STRICT;

-- What the holder of the passphrase has vouched for: the key of the segment, and its records up to this one.
CREATE TABLE audit_endorsements (
    first       INTEGER PRIMARY KEY,
    endorsement TEXT    NOT NULL
) STRICT;

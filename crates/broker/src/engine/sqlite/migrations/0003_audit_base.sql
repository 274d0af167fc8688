-- The last record of the audit that was let go, so that the first that is kept can be seen to follow it.
CREATE TABLE audit_base (
    one    INTEGER PRIMARY KEY CHECK (one = 1),
    no     INTEGER NOT NULL,
    digest BLOB    NOT NULL
) STRICT;

INSERT INTO audit_base (one, no, digest) VALUES (1, 0, zeroblob(32));

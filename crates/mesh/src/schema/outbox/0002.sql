-- The member that accepted a row, where that is not who sends now: its id is among that member's ids. NULL: who sends now.
ALTER TABLE outbox ADD COLUMN origin TEXT;

-- The member that accepts now.
CREATE TABLE owner (
    only_one INTEGER PRIMARY KEY CHECK (only_one = 1),
    member   TEXT    NOT NULL
) STRICT;

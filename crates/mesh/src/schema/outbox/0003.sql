-- The id of the entry at the furthest confirmed place: a log that has another one there was put back from a copy.
ALTER TABLE confirmed ADD COLUMN entry_id TEXT;

-- Small facts: whether it was closed.
CREATE TABLE facts (
    name  TEXT NOT NULL PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

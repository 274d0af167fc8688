-- The last entry of the log that was stored in its turn: a log that has another one there was put back from a copy.
ALTER TABLE cursor ADD COLUMN entry_seq INTEGER;
ALTER TABLE cursor ADD COLUMN entry_id TEXT;

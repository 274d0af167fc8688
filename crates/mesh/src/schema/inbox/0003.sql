-- The last entry of the log that was stored in its turn: a log that has another one there was put back from a copy.
ALTER TABLE cursor ADD COLUMN entry_seq INTEGER;
ALTER TABLE cursor ADD COLUMN entry_id TEXT;

-- Announced files, without a walk through everything else.
CREATE INDEX inbox_files ON inbox (no) WHERE file IS NOT NULL;

-- Senders by name and by key; the key of a session's member is in a column of its own.
CREATE INDEX inbox_sender_name ON inbox (sender_name COLLATE NOCASE, received_at);
CREATE INDEX inbox_sender_key ON inbox (sender_pubkey, received_at);
CREATE INDEX inbox_sender_member_key ON inbox (sender_member_pubkey, received_at) WHERE sender_member_pubkey IS NOT NULL;

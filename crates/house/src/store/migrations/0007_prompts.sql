-- What proves that the house itself took a prompt; see `crates/house/src/sessions/prompts.rs`.

ALTER TABLE turns ADD COLUMN seal BLOB NOT NULL DEFAULT x'';
-- 1 where nobody can prove any more that the house took the prompt, so that its turn asks before it writes.
ALTER TABLE turns ADD COLUMN unproved INTEGER NOT NULL DEFAULT 0;

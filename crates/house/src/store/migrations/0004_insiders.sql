-- What processes inside the house made: `session:ID` or `process:ID` of whoever asked, so that it owns the session later.
-- Null for what came from outside.
ALTER TABLE sessions ADD COLUMN made_by TEXT;

-- Whether the member that is named as the sender is proven to have written it. What came before this step was not
-- looked at for that.
ALTER TABLE inbox ADD COLUMN verified INTEGER NOT NULL DEFAULT 0;

-- What a row that waits for its key needs beside its sealed body to be judged later: the group it is for, and whether it
-- came in the order of the log.
ALTER TABLE inbox ADD COLUMN group_name TEXT;
ALTER TABLE inbox ADD COLUMN in_order INTEGER NOT NULL DEFAULT 0;

-- What is proven about other members.
CREATE TABLE authors (
    member_id  TEXT    NOT NULL PRIMARY KEY,
    -- The key that counts, and those that are proven to have come before it, as JSON.
    pubkey     TEXT    NOT NULL,
    earlier    TEXT    NOT NULL,
    -- The key was replaced, and nobody but the broker says so.
    unproven   INTEGER NOT NULL,
    -- As the member has signed it, and when.
    name       TEXT,
    name_at    INTEGER NOT NULL,
    -- From this entry of the log on everything must be proven. NULL: the member has never proven anything.
    signs_from INTEGER
) STRICT, WITHOUT ROWID;

-- Files that were announced, also those whose announcements were deleted: who shared them, and what they are.
CREATE TABLE announced_files (
    file_id          TEXT    NOT NULL,
    sender_member_id TEXT    NOT NULL,
    sha256           TEXT    NOT NULL,
    verified         INTEGER NOT NULL,
    announced_at     INTEGER NOT NULL,
    PRIMARY KEY (file_id, sender_member_id)
) STRICT, WITHOUT ROWID;

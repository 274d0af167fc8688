-- The members of large groups, once for all entries that were written for the same ones. An entry names its audience by
-- `#` and the number, with sixteen digits.
CREATE TABLE audiences (
    no         INTEGER PRIMARY KEY,
    log        INTEGER NOT NULL,
    digest     BLOB    NOT NULL,
    -- The last entry for it: with that entry it goes.
    last_place INTEGER NOT NULL,
    -- What is counted for it in `logs.bytes`.
    bytes      INTEGER NOT NULL,
    UNIQUE (log, digest)
) STRICT;

CREATE INDEX audiences_by_last ON audiences (last_place);

-- Apart from the above, so that another entry for it does not write all members again.
CREATE TABLE audience_members (
    no      INTEGER PRIMARY KEY,
    members TEXT    NOT NULL
) STRICT;

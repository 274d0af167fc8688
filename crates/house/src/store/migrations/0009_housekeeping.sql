-- What housekeeping remembers; see crates/house/src/housekeeping.

-- The newest time of day that was believed, nanoseconds since 1970.
CREATE TABLE believed_time (
    one         INTEGER PRIMARY KEY CHECK (one = 0),
    believed_ns INTEGER NOT NULL
) STRICT;

-- What is past its age. It is removed a day of believed time after since_ns, unless it is young, or needed, again by then.
CREATE TABLE tombstones (
    -- journal: a process, by its id in hexadecimal digits. session: a closed session, by its id.
    kind     TEXT    NOT NULL,
    id       TEXT    NOT NULL,
    since_ns INTEGER NOT NULL,
    PRIMARY KEY (kind, id)
) STRICT, WITHOUT ROWID;

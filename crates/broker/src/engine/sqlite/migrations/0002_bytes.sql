-- How much a log takes, entries and remembered ids together, so that it can have a limit. What is added to the bytes of a
-- row stands for its fixed columns and its indexes.
ALTER TABLE logs ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;

UPDATE logs SET bytes =
    (SELECT coalesce(sum(octet_length(body) + octet_length(audience) + octet_length(client_id) + 200), 0)
     FROM log WHERE place > logs.no << 40 AND place < (logs.no + 1) << 40)
  + (SELECT coalesce(sum(2 * octet_length(client_id) + 200), 0) FROM dedupe WHERE dedupe.log = logs.no);

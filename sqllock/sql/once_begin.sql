-- once_begin writes, in the caller's transaction, that a key's work runs, where no
-- record stands. Whoever else comes waits for the end of this transaction.
--
-- :name :value :keep -> a row if it was written; where the dialect cannot tell,
-- none, and what stands is read
INSERT INTO {record} AS r (name, version, value, until)
SELECT :name, {mint}, :value, {wall} + :keep WHERE :keep > 0
ON CONFLICT (name) DO UPDATE SET
  version = {max}(r.version + 1, excluded.version), value = excluded.value, until = excluded.until
WHERE r.until <> 0 AND r.until <= {wall}
RETURNING 1

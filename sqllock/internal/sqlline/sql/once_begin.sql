-- once_begin writes, in the caller's transaction, that the work of a key runs, if there
-- is no record. Other transactions on the key wait for the end of this one.
--
-- :name :value :keep -> a row if it was written; in a dialect that cannot report it, no row,
--   and the record is read afterwards
INSERT INTO {record} AS r (name, version, value, until)
SELECT :name, {mint}, :value, {wall} + :keep WHERE :keep > 0
ON CONFLICT (name) DO UPDATE SET
  version = {max}(r.version + 1, excluded.version), value = excluded.value, until = excluded.until
WHERE r.until <> 0 AND r.until <= {wall}
RETURNING 1

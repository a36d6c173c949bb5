-- once_begin writes, in the caller's transaction, that the work of a key runs, if there
-- is no record. It does not read first: reading a row that does not exist locks the gap
-- around it. The column that the conditions read is assigned last.
--
-- :name :value :keep -> nothing: the record is read afterwards
INSERT INTO {record} (name, version, value, until) VALUES (:name, {mint}, :value, {wall} + :keep)
ON DUPLICATE KEY UPDATE
  value = IF(until <> 0 AND until <= {wall}, :value, value),
  version = IF(until <> 0 AND until <= {wall}, GREATEST(version + 1, {mint}), version),
  until = IF(until <> 0 AND until <= {wall}, {wall} + :keep, until)

-- once_begin writes, in the caller's transaction, that a key's work runs, where no
-- record stands. It does not look first: a row that is not there is locked with its
-- neighbours. What is set last is what the others are judged by.
--
-- :name :value :keep -> nothing: what stands is read
INSERT INTO {record} (name, version, value, until) VALUES (:name, {mint}, :value, {wall} + :keep)
ON DUPLICATE KEY UPDATE
  value = IF(until <> 0 AND until <= {wall}, :value, value),
  version = IF(until <> 0 AND until <= {wall}, GREATEST(version + 1, {mint}), version),
  until = IF(until <> 0 AND until <= {wall}, {wall} + :keep, until)

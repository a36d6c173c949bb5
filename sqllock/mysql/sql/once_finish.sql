-- once_finish overwrites what once_begin wrote with the outcome. If the caller rolled
-- back to a savepoint from before, the record may be another transaction's by now: it
-- does not have the mark.
--
-- :name :id, the mark of what once_begin wrote, :value :keep -> nothing: the record is
--   read afterwards
UPDATE {record} SET value = :value, until = {wall} + :keep, version = GREATEST(version + 1, {mint})
WHERE name = :name AND LOCATE(:id, value) > 0

-- once_finish overwrites what once_begin wrote with the outcome. If the caller rolled
-- back to a savepoint from before, the record may be another transaction's by now: it
-- does not have the mark.
--
-- :name :id, the mark of what once_begin wrote, :value :keep -> a row if it was there;
--   in a dialect that cannot report it, no row
UPDATE {record} SET value = :value, until = {wall} + :keep, version = {max}(version + 1, {mint})
WHERE name = :name AND instr(value, CAST(:id AS BLOB)) > 0
RETURNING 1

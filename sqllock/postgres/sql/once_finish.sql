-- once_finish overwrites what once_begin wrote with the outcome. If the caller rolled
-- back to a savepoint from before, the record may be another transaction's by now: it
-- does not have the mark.
--
-- :name :id, the mark of what once_begin wrote, :value :keep -> a row if it was there
UPDATE {record} SET value = :value, until = {wall} + :keep, version = greatest(version + 1, {mint})
WHERE name = :name AND position(convert_to(:id, 'UTF8') IN value) > 0
RETURNING 1

-- once_end writes what came of a key's work over what once_begin wrote. Where the
-- caller has stepped back to before that, another's record may stand there by now:
-- it does not have the mark.
--
-- :name :id, the mark of what once_begin wrote, :value :keep -> a row if it was there
UPDATE {record} SET value = :value, until = {wall} + :keep, version = greatest(version + 1, {mint})
WHERE name = :name AND position(convert_to(:id, 'UTF8') IN value) > 0
RETURNING 1

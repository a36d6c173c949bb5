-- once_end writes what came of a key's work over what once_begin wrote. Where the
-- caller has stepped back to before that, another's record may stand there by now:
-- it does not have the mark.
--
-- :name :id, the mark of what once_begin wrote, :value :keep -> nothing: what stands is read
UPDATE {record} SET value = :value, until = {wall} + :keep, version = GREATEST(version + 1, {mint})
WHERE name = :name AND LOCATE(:id, value) > 0

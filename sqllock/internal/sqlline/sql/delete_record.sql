-- delete_record deletes a record if its version is the expected one.
--
-- :name :version -> the version that was deleted; no row: the version is another
DELETE FROM {record} WHERE name = :name AND version = :version AND (until = 0 OR until > {wall})
RETURNING version

-- load_record reads a record that has not ended.
--
-- :name -> version, value; no row: there is none
SELECT version, value FROM {record} WHERE name = :name AND (until = 0 OR until > {wall})

-- record_version reads only the version of a record that has not ended.
--
-- :name -> version; no row: there is none
SELECT version FROM {record} WHERE name = :name AND (until = 0 OR until > {wall})

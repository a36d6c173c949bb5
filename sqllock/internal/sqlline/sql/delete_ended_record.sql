-- delete_ended_record deletes one record that has ended.
--
-- :name -> nothing
DELETE FROM {record} WHERE name = :name AND until <> 0 AND until <= {wall}

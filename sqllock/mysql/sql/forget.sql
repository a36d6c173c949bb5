-- forget deletes one record that has ended, unless somebody has it, as once.Tx does:
-- one that waits would keep others from what the flight has deleted before. The row
-- is had as in beat_x.
--
-- :name -> nothing
{delete} r FROM (
  SELECT name FROM {record} WHERE name = :name AND until <> 0 AND until <= {wall}
  LIMIT 1 FOR UPDATE SKIP LOCKED
) f STRAIGHT_JOIN {record} r ON r.name = f.name

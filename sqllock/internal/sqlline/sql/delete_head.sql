-- delete_head deletes one head row, if it is still idle. Tokens stay unique: a new row
-- starts above the wall clock and the store's own counter.
--
-- :name :ttl -> nothing
DELETE FROM {head}
WHERE name = :name AND used = 0 AND waiting = 0
  AND x_until < {now} - :ttl AND x_since < {now} - :ttl

-- delete_head deletes one head row, if it is still idle and its tokens are recorded:
-- the row may have been used after save_fence read it.
--
-- :name :ttl -> nothing
DELETE FROM {head}
WHERE name = :name AND used = 0 AND waiting = 0
  AND x_until < {now} - :ttl AND x_since < {now} - :ttl
  AND fence <= (SELECT m.fence FROM {head} m WHERE m.name = '')

-- delete_heads deletes head rows, each if it is still idle and its tokens are recorded:
-- the row may have been used after save_fence read it. A locked row stays, such as one
-- that a guard of the last hold has locked.
--
-- :names :ttl -> nothing
DELETE FROM {head} h
USING (SELECT name FROM {head} WHERE name = ANY (:names) AND used = 0 AND waiting = 0
  AND x_until < {now} - :ttl AND x_since < {now} - :ttl
  AND fence <= (SELECT m.fence FROM {head} m WHERE m.name = '') FOR UPDATE SKIP LOCKED) f
WHERE h.name = f.name

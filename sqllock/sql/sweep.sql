-- sweep forgets one idle head row, if it is still idle. Tokens go on above it:
-- they are never below the wall clock or the store's own counter.
--
-- :name :ttl -> nothing
DELETE FROM {head}
WHERE name = :name AND used = 0 AND waiting = 0
  AND x_until < {now} - :ttl AND x_since < {now} - :ttl

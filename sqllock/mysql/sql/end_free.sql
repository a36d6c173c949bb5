-- end_free gives back the exclusive hold of a claim, up to a try, if it is live
-- and nobody waits for it.
--
-- :name :id :upto -> a row; no row: it was not held, or somebody waits
UPDATE {head}
SET x_since = {now} + 0 * LAST_INSERT_ID(waiting + 1),
  departed = departed + 1, x_id = '', x_until = 0
WHERE name = :name AND x_id = :id AND x_try <= :upto AND x_until > {now} AND waiting = 0;
SELECT LAST_INSERT_ID() - 1 FROM dual WHERE ROW_COUNT() > 0

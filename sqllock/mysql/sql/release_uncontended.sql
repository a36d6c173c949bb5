-- release_uncontended releases the live exclusive hold of a claim, for tries up to a
-- given one, if no claim waits for the name.
--
-- :name :id :maxtry -> a row; no row: it was not held, or a claim waits
UPDATE {head}
SET x_since = {now} + 0 * LAST_INSERT_ID(waiting + 1),
  departed = departed + 1, x_id = '', x_until = 0
WHERE name = :name AND x_id = :id AND x_try <= :maxtry AND x_until > {now} AND waiting = 0;
SELECT LAST_INSERT_ID() - 1 FROM dual WHERE ROW_COUNT() > 0

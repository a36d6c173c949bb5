-- release_hold releases the live exclusive hold of a claim, for tries up to a given
-- one. From then on x_since is the time since which the name is free. The other columns
-- of the holder mean nothing without x_id and stay, so that less is written.
--
-- :name :id :maxtry -> the number of waiting claims; no row: it was not held
UPDATE {head}
SET x_since = {now} + 0 * LAST_INSERT_ID(waiting + 1),
  departed = departed + 1, x_id = '', x_until = 0
WHERE name = :name AND x_id = :id AND x_try <= :maxtry AND x_until > {now};
SELECT LAST_INSERT_ID() - 1 FROM dual WHERE ROW_COUNT() > 0

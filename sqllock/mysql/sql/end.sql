-- end gives back the exclusive hold of a claim, up to a try, if it is live.
-- x_since then says since when the name is free. What else the row says of the
-- holder means nothing without x_id, and the less changes the less is written.
--
-- :name :id :upto -> how many wait; no row: it was not held
UPDATE {head}
SET x_since = {now} + 0 * LAST_INSERT_ID(waiting + 1),
  departed = departed + 1, x_id = '', x_until = 0
WHERE name = :name AND x_id = :id AND x_try <= :upto AND x_until > {now};
SELECT LAST_INSERT_ID() - 1 FROM dual WHERE ROW_COUNT() > 0

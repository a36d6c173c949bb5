-- take_known is take_free for a name whose head row is known to exist: trying to insert
-- it first would cost as much again. It takes only a free name; a repeated claim goes
-- through the batch that joins the line. The clock is read as rarely as possible: each
-- reading costs the server some microseconds.
--
-- :name :id :try :session :owner :note :need :limit :queue :ttl -> token; no row: not
--   taken
UPDATE {head} SET
  x_token   = LAST_INSERT_ID(GREATEST(fence + 1, {now}) + 1) - 1,
  fence     = GREATEST(fence + 1, {now}),
  departed  = departed + IF(x_id <> '', 1, 0),
  x_since   = {now},
  x_session = :session, x_live = :owner, x_note = :note, x_need = :need, x_limit = :limit, x_queue = :queue,
  x_try     = :try, x_id = :id,
  x_until   = {now} + :ttl + {primary}
WHERE name = :name AND x_until <= {now} AND used = 0 AND waiting = 0;
SELECT LAST_INSERT_ID() - 1 FROM dual WHERE ROW_COUNT() > 0

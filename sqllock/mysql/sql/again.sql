-- again is enter for a name whose row is known to be there: to try to make it
-- first would cost as much again. It knows only the free name; a claim that is
-- repeated finds its way through the queueing flight. The fewer times the clock
-- is worked out the better: each takes the server some microseconds.
--
-- :name :id :try :session :live :note :need :limit :queue :ttl -> token; no row: not taken
UPDATE {head} SET
  x_token   = LAST_INSERT_ID(GREATEST(fence + 1, {now}) + 1) - 1,
  fence     = GREATEST(fence + 1, {now}),
  departed  = departed + IF(x_id <> '', 1, 0),
  x_since   = {now},
  x_session = :session, x_live = :live, x_note = :note, x_need = :need, x_limit = :limit, x_queue = :queue,
  x_try     = :try, x_id = :id,
  x_until   = {now} + :ttl + {primary}
WHERE name = :name AND x_until <= {now} AND used = 0 AND waiting = 0;
SELECT LAST_INSERT_ID() - 1 FROM dual WHERE ROW_COUNT() > 0

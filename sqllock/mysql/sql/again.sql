-- again is enter for a name whose row is known to be there: to try to make it
-- first would cost as much again.
--
-- :name :id :try :session :live :note :need :limit :queue :ttl -> token; no row: not taken
UPDATE {head} SET
  x_token   = LAST_INSERT_ID(IF(x_until <= {now}, GREATEST(fence + 1, {now}), x_token) + 1) - 1,
  fence     = IF(x_until <= {now}, GREATEST(fence + 1, {now}), fence),
  departed  = departed + IF(x_until <= {now} AND x_id <> '', 1, 0),
  x_since   = IF(x_until <= {now}, {now}, x_since),
  x_session = :session, x_live = :live, x_note = :note, x_need = :need, x_limit = :limit, x_queue = :queue,
  x_try     = :try, x_id = :id,
  x_until   = GREATEST(x_until, {now} + :ttl)
WHERE name = :name
  AND ((x_until <= {now} AND used = 0 AND waiting = 0) OR (x_until > {now} AND x_id = :id AND x_try = :try));
SELECT LAST_INSERT_ID() - 1 FROM dual WHERE ROW_COUNT() > 0

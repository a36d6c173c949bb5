-- take_free takes a free name exclusively in one statement. It succeeds if nothing is
-- held and no claim waits, or if the same id and try holds the name already: then the
-- token stays and the hold is prolonged. Otherwise it changes nothing, and the claim
-- has to join the line.
--
-- :name :id :try :session :owner :note :need :limit :queue :ttl -> token; no row: not
--   taken
INSERT INTO {head} AS h (name, fence, x_id, x_try, x_token, x_session, x_live, x_note,
  x_need, x_limit, x_queue, x_since, x_until, used, waiting, departed)
VALUES (:name, {mint}, :id, :try, {mint}, :session, :owner, :note,
  :need, :limit, :queue, {now}, {now} + :ttl, 0, 0, 0)
ON CONFLICT (name) DO UPDATE SET
  fence     = CASE WHEN h.x_until > {now} THEN h.fence     ELSE {max}(h.fence + 1, excluded.fence) END,
  x_token   = CASE WHEN h.x_until > {now} THEN h.x_token   ELSE {max}(h.fence + 1, excluded.fence) END,
  x_since   = CASE WHEN h.x_until > {now} THEN h.x_since   ELSE {now} END,
  x_session = CASE WHEN h.x_until > {now} THEN h.x_session ELSE excluded.x_session END,
  x_live    = CASE WHEN h.x_until > {now} THEN h.x_live    ELSE excluded.x_live END,
  x_until   = {max}(h.x_until, excluded.x_until),
  departed  = h.departed + CASE WHEN h.x_id = '' OR h.x_until > {now} THEN 0 ELSE 1 END,
  x_id = excluded.x_id, x_try = excluded.x_try, x_note = excluded.x_note,
  x_need = excluded.x_need, x_limit = excluded.x_limit, x_queue = excluded.x_queue
WHERE (h.x_until <= {now} AND h.used = 0 AND h.waiting = 0)
   OR (h.x_until > {now} AND h.x_id = excluded.x_id AND h.x_try = excluded.x_try)
RETURNING x_token

-- stand puts an exclusive claim at the end of the line behind a holder whose time is
-- not over: the common end of an Enter on a busy name, after lock. Whatever is not
-- common, as a claim that is there already, is left to the queueing flight. Its
-- commit does not wait for the disk: should the server forget it in a crash, the
-- claim is not in line and enters again, and whoever is let in meanwhile has it
-- written down with his own.
--
-- :name :id :try :session :live :note :need :limit :queue :ttl -> the token; no row: the queueing flight
WITH n AS (
  INSERT INTO {claim} (name, token, id, try, session, live, note, need, lim, queue, held, since, until)
  SELECT h.name, greatest(h.fence + 1, {mint}), :id, :try, :session, :live, :note, :need, :limit, :queue, 0, {now}, {now} + :ttl
  FROM {head} h
  WHERE h.name = :name AND h.x_id <> '' AND h.x_id <> :id AND h.x_until > {now}
    AND NOT EXISTS (SELECT 1 FROM {claim} c WHERE c.name = :name AND (c.id = :id OR c.until <= {now}))
  RETURNING name, token
)
UPDATE {head} t SET fence = n.token, waiting = t.waiting + 1
FROM n
WHERE t.name = n.name AND set_config('synchronous_commit', 'off', true) IS NOT NULL
RETURNING t.fence

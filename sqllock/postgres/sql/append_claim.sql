-- append_claim puts an exclusive claim at the end of the line behind a live holder: the
-- common outcome of an Enter on a busy name, after lock_head. Any other case, such as a
-- claim that is in the line already, is left to join_line. The commit does not wait for
-- the disk: if the server forgets it in a crash, the claim is not in line and enters
-- again, and a later grant on the name writes the log up to here anyway.
--
-- :name :id :try :session :owner :note :need :limit :queue :ttl -> as standing, where
--   what expires first is searched for among the first 64; no row: use join_line
WITH n AS (
  INSERT INTO {claim} (name, token, id, try, session, live, note, need, lim, queue, held, since, until)
  SELECT h.name, greatest(h.fence + 1, {mint}), :id, :try, :session, :owner, :note, :need, :limit, :queue, 0, {now}, {now} + :ttl
  FROM {head} h
  WHERE h.name = :name AND h.x_id <> '' AND h.x_id <> :id AND h.x_until > {now}
    AND NOT EXISTS (SELECT 1 FROM {claim} c WHERE c.name = :name AND (c.id = :id OR c.until <= {now}))
  RETURNING name, token, try, until
)
UPDATE {head} t SET fence = n.token, waiting = t.waiting + 1
FROM n
WHERE t.name = n.name AND set_config('synchronous_commit', 'off', true) IS NOT NULL
RETURNING 1, {now}, n.try, 0, n.token, n.until, t.used + t.waiting,
  least(t.x_until, (SELECT min(f.until) FROM (SELECT c.until FROM {claim} c WHERE c.name = :name ORDER BY c.token LIMIT 64) f)), 0,
  t.x_id, t.x_try, t.x_token, t.x_session, t.x_need, t.x_limit, t.x_queue, t.x_note, 1, t.x_since, t.x_until

-- promote grants the name to the first claim in line if that is exclusive and nothing
-- is held: the claim moves into the head row with its own token and expiry. The claim's
-- row is locked first, so that the expiry is the one that a concurrent beat has set. An
-- open guard of the last hold prevents it.
--
-- :name -> the id that was granted
UPDATE {head}
SET x_id = f.id, x_try = f.try, x_token = f.token, x_session = f.session, x_live = f.live, x_note = f.note,
  x_need = f.need, x_limit = f.lim, x_queue = f.queue, x_since = {now}, x_until = f.until
FROM (SELECT * FROM {claim} c WHERE c.name = :name ORDER BY c.token LIMIT 1 FOR UPDATE) f
WHERE {head}.name = :name AND {head}.x_id = '' AND f.need >= f.lim
  AND EXISTS (SELECT 1 FROM {head} b WHERE b.name = :name AND b.x_id = '' FOR UPDATE SKIP LOCKED)
RETURNING x_id

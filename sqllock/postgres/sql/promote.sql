-- promote grants the name to the first claim in line if that is exclusive and nothing
-- is held: the claim moves into the head row with its own token and expiry. The claim's
-- row is locked first, so that the expiry is the one that a concurrent beat has set, by
-- a lock that does not wait for guards: the first in line may be a guarded reader. Only
-- for a claim that can be granted is the head row locked against guards; an open guard
-- of the last hold prevents the grant.
--
-- :name -> the id that was granted, and its owner
UPDATE {head}
SET x_id = f.id, x_try = f.try, x_token = f.token, x_session = f.session, x_live = f.live, x_note = f.note,
  x_need = f.need, x_limit = f.lim, x_queue = f.queue, x_since = {now}, x_until = f.until
FROM (SELECT * FROM {claim} c WHERE c.name = :name ORDER BY c.token LIMIT 1 FOR NO KEY UPDATE) f,
  LATERAL (SELECT 1 FROM {head} b WHERE b.name = f.name AND b.x_id = '' AND f.need >= f.lim FOR UPDATE SKIP LOCKED) free
WHERE {head}.name = :name AND {head}.x_id = ''
RETURNING x_id, x_live

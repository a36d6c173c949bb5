-- promote lets the first in line have the name whole: if it is exclusive and
-- nothing is held, it moves into the head row with its own token and expiry. The
-- claim's row is held first, so that the expiry is the one that a beat under way
-- has set. A guard of the last hold keeps everybody out.
--
-- :name -> the id that was let in
UPDATE {head}
SET x_id = f.id, x_try = f.try, x_token = f.token, x_session = f.session, x_live = f.live, x_note = f.note,
  x_need = f.need, x_limit = f.lim, x_queue = f.queue, x_since = {now}, x_until = f.until
FROM (SELECT * FROM {claim} c WHERE c.name = :name ORDER BY c.token LIMIT 1 FOR UPDATE) f
WHERE {head}.name = :name AND {head}.x_id = '' AND f.need >= f.lim
  AND EXISTS (SELECT 1 FROM {head} b WHERE b.name = :name AND b.x_id = '' FOR UPDATE SKIP LOCKED)
RETURNING x_id

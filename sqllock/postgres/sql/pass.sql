-- pass lets the first in line have a name that was just given back: the common
-- end of a settle, in one statement. The head row is held first and then the
-- claim, as in every flight, and both are read as they are then: a claim that
-- moved, ended or was prolonged since the statement began is seen so. Whatever is
-- not common, as a first that shares the name or has expired, a guard, or a row
-- that somebody has, is left to settle.
--
-- :name -> the id that was let in; no row: settle
WITH h AS (
  SELECT name FROM {head} WHERE name = :name AND x_id = '' AND used = 0 AND waiting > 0 FOR UPDATE SKIP LOCKED
), f AS (
  SELECT c.* FROM h, LATERAL (SELECT * FROM {claim} WHERE name = h.name ORDER BY token LIMIT 1 FOR UPDATE) c
), d AS (
  DELETE FROM {claim} c USING f
  WHERE c.name = f.name AND c.token = f.token AND f.need >= f.lim AND f.until > {now}
  RETURNING c.token
)
UPDATE {head} t
SET x_id = f.id, x_try = f.try, x_token = f.token, x_session = f.session, x_live = f.live, x_note = f.note,
  x_need = f.need, x_limit = f.lim, x_queue = f.queue, x_since = {now}, x_until = f.until, waiting = t.waiting - 1
FROM f, d
WHERE t.name = f.name AND d.token = f.token
RETURNING t.x_id

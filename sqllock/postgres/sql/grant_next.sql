-- grant_next grants a name that was just released to the first claim in line: the
-- common outcome of advancing a line, in one statement. It locks the head row first and
-- then the claim, as every batch does, and reads both after locking them, so that it
-- sees a claim that moved, ended or was prolonged since the statement began. Any other
-- case, such as a shared or expired first claim, an open guard or a locked row, is left
-- to the batch that advances the line.
--
-- :name -> the id that was granted, and its owner; no row: advance the line
WITH h AS (
  SELECT name FROM {head} WHERE name = :name AND x_id = '' AND used = 0 AND waiting > 0 FOR UPDATE SKIP LOCKED
), f AS (
  SELECT c.* FROM h, LATERAL (SELECT * FROM {claim} WHERE name = h.name ORDER BY token LIMIT 1 FOR NO KEY UPDATE) c
), d AS (
  DELETE FROM {claim} c USING f
  WHERE c.name = f.name AND c.token = f.token AND f.need >= f.lim AND f.until > {now}
  RETURNING c.token
)
UPDATE {head} t
SET x_id = f.id, x_try = f.try, x_token = f.token, x_session = f.session, x_live = f.live, x_note = f.note,
  x_need = f.need, x_limit = f.lim, x_queue = f.queue, x_since = {now}, x_until = f.until, waiting = t.waiting - 1
FROM f, d
WHERE t.name = f.name AND d.token = f.token AND {durable}
RETURNING t.x_id, t.x_live

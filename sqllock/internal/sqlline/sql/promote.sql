-- promote grants the name to the first claim in line if that is exclusive and nothing
-- is held: the claim moves into the head row with its own token and expiry.
--
-- :name -> the id that was granted, and its process
UPDATE {head}
SET x_id = f.id, x_try = f.try, x_token = f.token, x_session = f.session, x_live = f.live, x_note = f.note,
  x_need = f.need, x_limit = f.lim, x_queue = f.queue, x_since = {now}, x_until = f.until
FROM (SELECT * FROM {claim} c WHERE c.name = :name ORDER BY c.token LIMIT 1) f
WHERE {head}.name = :name AND {head}.x_id = '' AND f.need >= f.lim
RETURNING x_id, x_live

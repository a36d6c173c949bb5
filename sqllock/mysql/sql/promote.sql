-- promote grants the name to the first claim in line if that is exclusive and nothing
-- is held: the claim moves into the head row with its own token and expiry.
--
-- :name -> nothing
{update} {head} h JOIN (SELECT * FROM {claim} WHERE name = :name ORDER BY token LIMIT 1) f ON 1 = 1
SET h.x_id = f.id, h.x_try = f.try, h.x_token = f.token, h.x_session = f.session, h.x_live = f.live, h.x_note = f.note,
  h.x_need = f.need, h.x_limit = f.lim, h.x_queue = f.queue, h.x_since = {now} + {primary}, h.x_until = f.until
WHERE h.name = :name AND h.x_id = '' AND f.need >= f.lim

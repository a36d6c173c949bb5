-- grant_next grants a name that was just released to the first claim in line, if that is
-- exclusive and has not expired: the common outcome of advancing a line, without reading
-- the line. Any other case is left to the batch that advances it. The row of the name is
-- locked first, also if the name is held: the claim is read as it is then, and MySQL locks
-- the row of a claim that it reads here, which must not come before that of the name.
--
-- :name -> the id that was granted; no row: advance the line
UPDATE {head} SET departed = departed WHERE name = :name;
{update} {head} h JOIN (SELECT * FROM {claim} WHERE name = :name ORDER BY token LIMIT 1) f ON 1 = 1
SET h.x_id = f.id, h.x_try = f.try, h.x_token = f.token, h.x_session = f.session, h.x_live = f.live, h.x_note = f.note,
  h.x_need = f.need, h.x_limit = f.lim, h.x_queue = f.queue, h.x_since = {now} + {primary}, h.x_until = f.until,
  h.waiting = h.waiting - 1
WHERE h.name = :name AND h.x_id = '' AND h.used = 0 AND h.waiting > 0 AND f.need >= f.lim AND f.until > {now};
{delete} c FROM {head} h STRAIGHT_JOIN {claim} c ON c.name = h.name AND c.token = h.x_token
WHERE h.name = :name AND ROW_COUNT() > 0;
SELECT x_id FROM {head} WHERE name = :name AND ROW_COUNT() > 0

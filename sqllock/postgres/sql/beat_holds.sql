-- beat_holds prolongs exclusive holds as beat_hold does: each that is live and whose
-- row is not locked.
--
-- :names :ids :tries :ttl -> id and token of each hold that was prolonged
UPDATE {head} h SET x_until = greatest(h.x_until, {now} + :ttl)
FROM unnest(:names, :ids, :tries) AS b (name, id, try),
  LATERAL (SELECT x.name FROM {head} x WHERE x.name = b.name AND x.x_id = b.id AND x.x_try = b.try
    AND x.x_until > {now} FOR NO KEY UPDATE SKIP LOCKED) f
WHERE h.name = f.name AND {durable}
RETURNING h.x_id, h.x_token

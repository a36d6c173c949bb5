-- beats_x prolongs exclusive holds as beat_x does, each that is live and whose row
-- nobody has. All is judged by one moment: who then lives a TTL from there on, was
-- prolonged. The limit keeps the two from being made one, as in beat_x.
--
-- :names :pairs :ttl -> id and token of each that was prolonged
SET @pawl_now = {now} + {primary};
{update} (
  SELECT name FROM {head} WHERE name IN (:names) AND (x_id, x_try) IN (:pairs) AND x_until > @pawl_now
  LIMIT 1000000 FOR UPDATE SKIP LOCKED
) f STRAIGHT_JOIN {head} h ON h.name = f.name
SET h.x_until = GREATEST(h.x_until, @pawl_now + :ttl);
SELECT x_id, x_token FROM {head} WHERE name IN (:names) AND (x_id, x_try) IN (:pairs) AND x_until >= @pawl_now + :ttl

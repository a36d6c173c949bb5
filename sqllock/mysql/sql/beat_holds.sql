-- beat_holds prolongs exclusive holds as beat_hold does: each that is live and whose
-- row is not locked. All of them are compared with one reading of the clock: a row that
-- expires a TTL after it or later was prolonged. The limit keeps the optimizer from
-- merging the two, as in beat_hold.
--
-- :names :pairs :ttl -> id and token of each hold that was prolonged
SET @pawl_now = {now} + {primary};
{update} (
  SELECT name FROM {head} WHERE name IN (:names) AND (x_id, x_try) IN (:pairs) AND x_until > @pawl_now
  LIMIT 1000000 FOR UPDATE SKIP LOCKED
) f STRAIGHT_JOIN {head} h ON h.name = f.name
SET h.x_until = GREATEST(h.x_until, @pawl_now + :ttl);
SELECT x_id, x_token FROM {head} WHERE name IN (:names) AND (x_id, x_try) IN (:pairs) AND x_until >= @pawl_now + :ttl

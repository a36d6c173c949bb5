-- beat_claims prolongs rows of the claim table as beat_claim does: each that is live and
-- not locked. All of them are compared with one reading of the clock, as in beat_holds.
-- They are joined by key: these servers do not use it for a list of pairs.
--
-- :claims, rows of name, token, id and try :ttl -> id and held of each row that was
--   prolonged
SET @pawl_now = {now} + {primary};
{update} (
  SELECT x.name, x.token FROM (:claims) b STRAIGHT_JOIN {claim} x ON x.name = b.name AND x.token = b.token
  WHERE x.id = b.id AND x.try = b.try AND x.until > @pawl_now
  LIMIT 1000000 FOR UPDATE SKIP LOCKED
) f STRAIGHT_JOIN {claim} c ON c.name = f.name AND c.token = f.token
SET c.until = GREATEST(c.until, @pawl_now + :ttl);
SELECT c.id, c.held FROM (:claims) b STRAIGHT_JOIN {claim} c ON c.name = b.name AND c.token = b.token
WHERE c.id = b.id AND c.try = b.try AND c.until >= @pawl_now + :ttl

-- beat prolongs a place in line or a shared hold that is live, unless somebody
-- has the row: one that waits would keep the rest of the flight waiting. The row
-- that was had is joined to, in this order, so that no other is looked at; the
-- limit keeps the two from being made one.
--
-- :name :token :id :try :ttl -> held, token; no row: it is not there, or taken
{update} (
  SELECT name, token FROM {claim} WHERE name = :name AND token = :token AND id = :id AND try = :try AND until > {now}
  LIMIT 1 FOR UPDATE SKIP LOCKED
) f STRAIGHT_JOIN {claim} c ON c.name = f.name AND c.token = f.token
SET c.until = GREATEST(c.until, {now} + :ttl + {primary}) + 0 * LAST_INSERT_ID(c.held + 1);
SELECT LAST_INSERT_ID() - 1, :token FROM dual WHERE ROW_COUNT() > 0

-- beat_claim prolongs a live row of the claim table, unless a transaction has it
-- locked: waiting for it would delay the rest of the batch. The locked row is joined
-- first, in this order, so that no other row is examined; the limit keeps the optimizer
-- from merging the two.
--
-- :name :token :id :try :ttl -> held; no row: it is not there, or locked
{update} (
  SELECT name, token FROM {claim} WHERE name = :name AND token = :token AND id = :id AND try = :try AND until > {now}
  LIMIT 1 FOR UPDATE SKIP LOCKED
) f STRAIGHT_JOIN {claim} c ON c.name = f.name AND c.token = f.token
SET c.until = GREATEST(c.until, {now} + :ttl + {primary}) + 0 * LAST_INSERT_ID(c.held + 1);
SELECT LAST_INSERT_ID() - 1 FROM dual WHERE ROW_COUNT() > 0

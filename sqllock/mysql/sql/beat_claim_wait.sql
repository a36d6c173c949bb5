-- beat_claim_wait prolongs a live row of the claim table as beat_claim does, but waits
-- for the row's lock.
--
-- :name :token :id :try :ttl -> held; no row: it is not there
UPDATE {claim}
SET until = GREATEST(until, {now} + :ttl + {primary}) + 0 * LAST_INSERT_ID(held + 1)
WHERE name = :name AND token = :token AND id = :id AND try = :try AND until > {now};
SELECT LAST_INSERT_ID() - 1 FROM dual WHERE ROW_COUNT() > 0

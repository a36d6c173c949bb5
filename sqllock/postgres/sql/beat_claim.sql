-- beat_claim prolongs a live row of the claim table, unless a transaction has it
-- locked: waiting for it would delay the rest of the batch.
--
-- :name :token :id :try :ttl -> held; no row: it is not there, or locked
UPDATE {claim} c SET until = greatest(c.until, {now} + :ttl)
FROM (SELECT token FROM {claim} WHERE name = :name AND token = :token AND id = :id AND try = :try
  AND until > {now} FOR NO KEY UPDATE SKIP LOCKED) f
WHERE c.name = :name AND c.token = f.token AND {durable}
RETURNING c.held

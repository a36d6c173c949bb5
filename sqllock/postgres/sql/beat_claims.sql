-- beat_claims prolongs rows of the claim table as beat_claim does: each that is live
-- and not locked.
--
-- :names :tokens :ids :tries :ttl -> id and held of each row that was prolonged
UPDATE {claim} c SET until = greatest(c.until, {now} + :ttl)
FROM unnest(:names, :tokens, :ids, :tries) AS b (name, token, id, try),
  LATERAL (SELECT x.name, x.token FROM {claim} x WHERE x.name = b.name AND x.token = b.token AND x.id = b.id
    AND x.try = b.try AND x.until > {now} FOR NO KEY UPDATE SKIP LOCKED) f
WHERE c.name = f.name AND c.token = f.token AND {durable}
RETURNING c.id, c.held

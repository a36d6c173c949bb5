-- prolong_claim prolongs the claim of the same id and try, as its first Enter did. It
-- never shortens an expiry.
--
-- :name :id :try :ttl -> nothing
UPDATE {claim} SET until = GREATEST(until, {now} + :ttl + {primary})
WHERE name = :name AND id = :id AND try = :try

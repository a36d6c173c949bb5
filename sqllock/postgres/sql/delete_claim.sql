-- delete_claim ends a live row of the claim table, for tries up to a given one. The row
-- itself is left to expire_claims, which respects guards.
--
-- :name :id :maxtry -> the ids that ended
UPDATE {claim} SET until = 0
WHERE name = :name AND id = :id AND try <= :maxtry AND until > {now}
RETURNING id

-- delete_claim ends a live row of the claim table, for tries up to a given one.
--
-- :name :id :maxtry -> the ids that ended, and their processes
DELETE FROM {claim} WHERE name = :name AND id = :id AND try <= :maxtry AND until > {now}
RETURNING id, live

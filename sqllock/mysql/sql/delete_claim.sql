-- delete_claim ends a live row of the claim table, for tries up to a given one.
--
-- :name :id :maxtry -> the id that ended
DELETE FROM {claim} WHERE name = :name AND id = :id AND try <= :maxtry AND until > {now};
SELECT :id FROM dual WHERE ROW_COUNT() > 0

-- leaving_claims reads which rows delete_claims will end: the line is locked, so that none
-- is added or granted in between.
--
-- :name :ids :maxtry -> ids
SELECT id FROM {claim} WHERE name = :name AND id IN (:ids) AND try <= :maxtry AND until > {now}

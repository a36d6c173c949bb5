-- delete_claims ends rows of one line as delete_claim does.
--
-- :name :ids :maxtry -> nothing
DELETE FROM {claim} WHERE name = :name AND id IN (:ids) AND try <= :maxtry AND until > {now}

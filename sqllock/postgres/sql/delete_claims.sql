-- delete_claims ends rows of one line as delete_claim does.
--
-- :name :ids :maxtry -> the ids that ended
WITH d AS (
  UPDATE {claim} SET until = 0
  WHERE name = :name AND id = ANY (:ids) AND try <= :maxtry AND until > {now}
  RETURNING id
), h AS (
  UPDATE {head} SET departed = departed + 1 WHERE name = :name AND EXISTS (SELECT 1 FROM d)
)
SELECT id FROM d

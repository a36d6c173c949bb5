-- delete_claim ends a live row of the claim table, for tries up to a given one. The row
-- itself is left to expire_claims, which respects guards. The departure is counted here:
-- a guarded row stays, and waiters that poll would not learn that it has ended.
--
-- :name :id :maxtry -> the ids that ended
WITH d AS (
  UPDATE {claim} SET until = 0
  WHERE name = :name AND id = :id AND try <= :maxtry AND until > {now}
  RETURNING id, live
), h AS (
  UPDATE {head} SET departed = departed + 1 WHERE name = :name AND EXISTS (SELECT 1 FROM d)
)
SELECT id, live FROM d

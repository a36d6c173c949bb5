-- drop ends a claim's place in line or shared hold, up to a try, if it is live.
-- The row itself is left to prune, which minds guards.
--
-- :name :id :upto -> the ids that ended
UPDATE {claim} SET until = 0
WHERE name = :name AND id = :id AND try <= :upto AND until > {now}
RETURNING id

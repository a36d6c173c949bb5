-- drop ends a claim's place in line or shared hold, up to a try, if it is live.
--
-- :name :id :upto -> the ids that ended
DELETE FROM {claim} WHERE name = :name AND id = :id AND try <= :upto AND until > {now}
RETURNING id

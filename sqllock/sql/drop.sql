-- drop ends a claim's place in line or shared hold, up to a try.
--
-- :name :id :upto -> the ids that ended
DELETE FROM {claim} WHERE name = :name AND id = :id AND try <= :upto
RETURNING id

-- drop ends a claim's place in line or shared hold, up to a try, if it is live.
--
-- :name :id :upto -> the id that ended
DELETE FROM {claim} WHERE name = :name AND id = :id AND try <= :upto AND until > {now};
SELECT :id FROM dual WHERE ROW_COUNT() > 0

-- prolong moves the expiry of the same id and try, waiting or shared, as its
-- first Enter set it. It never shortens one.
--
-- :name :id :try :ttl -> nothing
UPDATE {claim} SET until = GREATEST(until, {now} + :ttl + {primary})
WHERE name = :name AND id = :id AND try = :try

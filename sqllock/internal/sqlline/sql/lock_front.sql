-- lock_front locks the first row of the line until the batch has ended, so that promote
-- copies the expiry that a concurrent beat has set. A dialect whose promote locks it
-- leaves this out.
--
-- :name -> no result
SELECT token FROM {claim} WHERE name = :name ORDER BY token LIMIT 1 FOR UPDATE

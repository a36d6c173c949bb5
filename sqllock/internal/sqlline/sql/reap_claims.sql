-- reap_claims deletes the claims of a process that is known to be dead.
--
-- :name :owner -> the ids that ended, and their processes
DELETE FROM {claim} WHERE name = :name AND live = :owner
RETURNING id, live

-- stalled_lines reads in which lines this process waits although nothing is held there:
-- the process that released the name died, or its call was cancelled, before it granted
-- the name to the next claim.
--
-- :owner -> names
SELECT DISTINCT c.name FROM {claim} c JOIN {head} h ON h.name = c.name
WHERE c.live = :owner AND c.held = 0 AND h.x_id = '' AND h.used = 0

-- stuck tells in which lines this process waits though nothing is held there:
-- whoever gave back died, or was cancelled, before it let the next in.
--
-- :live -> names
SELECT DISTINCT c.name FROM {claim} c JOIN {head} h ON h.name = c.name
WHERE c.live = :live AND c.held = 0 AND h.x_id = '' AND h.used = 0

-- owner_first reads a claim of one process that is the first to wait in its line.
--
-- :owner -> an id; no row: there is none
SELECT m.id FROM {claim} m
WHERE m.live = :owner AND m.held = 0
  AND m.token = (SELECT min(w.token) FROM {claim} w WHERE w.name = m.name AND w.held = 0)
LIMIT 1

-- join_line puts a claim at the end of the line, with a token above all before it. It
-- inserts nothing if the claim is in the line already, with this or a later try; if a
-- shared claim meets another limit; and if a claim that does not queue would not be
-- granted at once, because the line has no room or because the last hold is guarded. A
-- try that fails so writes nothing.
--
-- :name :id :try :session :owner :note :need :limit :queue :ttl -> nothing
INSERT INTO {claim} (name, token, id, try, session, live, note, need, lim, queue, held, since, until)
SELECT h.name, {max}(h.fence + 1, {mint}), :id, :try, :session, :owner, :note, :need, :limit, :queue, 0, {now}, {now} + :ttl
FROM {head} h
WHERE h.name = :name AND h.x_id <> :id
  AND NOT EXISTS (SELECT 1 FROM {claim} c WHERE c.name = :name
    AND (c.id = :id OR (:need < :limit AND c.need < c.lim AND c.lim <> :limit)))
  AND (:queue = 1 OR {unguarded})
  AND (:queue = 1
    OR (h.x_id = '' AND :need < :limit
      AND NOT EXISTS (SELECT 1 FROM {claim} c WHERE c.name = :name AND c.need >= c.lim)
      AND (SELECT coalesce(sum(c.need), 0) FROM {claim} c WHERE c.name = :name) + :need <= :limit)
    OR (h.x_id = '' AND NOT EXISTS (SELECT 1 FROM {claim} c WHERE c.name = :name)))

-- join puts a claim at the end of the line, with a token above all before it.
--
-- Left out are: one that is there already, with this or a later try; a shared
-- one where the line is shared under another limit; and one that does not queue
-- and does not fit behind all who are there, or is kept out by a guard of the last
-- hold, so that trying leaves no trace and writes nothing.
--
-- :name :id :try :session :live :note :need :limit :queue :ttl -> nothing
INSERT INTO {claim} (name, token, id, try, session, live, note, need, lim, queue, held, since, until)
SELECT h.name, {max}(h.fence + 1, {mint}), :id, :try, :session, :live, :note, :need, :limit, :queue, 0, {now}, {now} + :ttl
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

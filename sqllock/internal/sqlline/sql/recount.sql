-- recount sets the counters of shared and of waiting claims from the line itself, which
-- repairs what a process that died left wrong.
--
-- :name -> nothing
UPDATE {head}
SET used = n.used, waiting = n.waiting, x_since = CASE WHEN x_id = '' THEN {now} ELSE x_since END
FROM (SELECT coalesce(sum(c.held), 0) AS used, count(*) - coalesce(sum(c.held), 0) AS waiting
      FROM {claim} c WHERE c.name = :name) n
WHERE {head}.name = :name AND ({head}.used <> n.used OR {head}.waiting <> n.waiting)

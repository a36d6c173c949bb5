-- recount sets the counters of shared and of waiting claims from the line itself, which
-- repairs what a process that died left wrong.
--
-- :name -> nothing
{update} {head} h JOIN (
  SELECT coalesce(sum(held), 0) AS used, count(*) - coalesce(sum(held), 0) AS waiting FROM {claim} WHERE name = :name
) n ON 1 = 1
SET h.used = n.used, h.waiting = n.waiting, h.x_since = IF(h.x_id = '', {now}, h.x_since)
WHERE h.name = :name AND (h.used <> n.used OR h.waiting <> n.waiting)

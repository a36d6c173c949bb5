-- count sets how many share the name and how many wait from the line itself, so
-- that what a dead process left behind heals.
--
-- :name -> nothing
{update} {head} h JOIN (
  SELECT coalesce(sum(held), 0) AS used, count(*) - coalesce(sum(held), 0) AS waiting FROM {claim} WHERE name = :name
) n ON 1 = 1
SET h.used = n.used, h.waiting = n.waiting, h.x_since = IF(h.x_id = '', {now}, h.x_since)
WHERE h.name = :name AND (h.used <> n.used OR h.waiting <> n.waiting)

-- readonly.sql shows the tables without the rows of processes that are dead.

PRAGMA temp_store = MEMORY;

CREATE TEMP VIEW pawl_head_seen AS
SELECT name, fence, CASE WHEN pawl_gone(x_live) THEN '' ELSE x_id END AS x_id, x_try, x_token, x_session, x_live,
  x_note, x_need, x_limit, x_queue, x_since, CASE WHEN pawl_gone(x_live) THEN 0 ELSE x_until END AS x_until,
  used, waiting, departed
FROM main.pawl_head;

CREATE TEMP VIEW pawl_claim_seen AS SELECT * FROM main.pawl_claim WHERE NOT pawl_gone(live);

PRAGMA query_only = ON;

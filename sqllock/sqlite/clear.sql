-- clear.sql ends every claim: the clock of their expiries was of an earlier boot, and no
-- holder outlives that. Fences, counter and records stay.

UPDATE pawl_head
SET x_id = '', x_session = '', x_live = '', x_note = '', x_since = 0, x_until = 0, used = 0, waiting = 0,
  departed = departed + 1
WHERE name <> '';

DELETE FROM pawl_claim;

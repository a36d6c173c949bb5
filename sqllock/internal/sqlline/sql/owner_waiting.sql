-- owner_waiting reads which claims of one process wait. A waiter of the process that is
-- not among them was granted or has ended.
--
-- :owner -> ids
SELECT id FROM {claim} WHERE live = :owner AND held = 0

-- line_waiting reads which claims wait in one line. A waiter of that line that is not
-- among them was granted or has ended.
--
-- :name -> ids, in the order of the line
SELECT id FROM {claim} WHERE name = :name AND held = 0 ORDER BY token

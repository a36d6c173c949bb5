-- lock_sweep locks the row that records the tokens of deleted rows, which every
-- statement that makes a head row locks in share mode for a moment. It waits 20 ms at
-- most: such a statement may itself wait for a row that a guarded transaction has
-- locked, and while this exclusive lock is waited for no further share lock is granted.
-- Without any wait it would not succeed where new names are taken all the time. Each
-- server has its own syntax for the limit.
--
-- -> no result
{select_20ms} fence FROM {head} WHERE name = '' FOR UPDATE

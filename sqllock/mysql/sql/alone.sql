-- alone holds the row that notes swept tokens, which all who make a row share for a
-- moment, and waits for no longer than such moments last: one of them may itself wait
-- for its name's row, which a guard holds, and while an exclusive lock is waited for
-- nobody else comes to share. Not to wait at all would not do: where new names are
-- taken without pause, somebody always has the row. Each server is told in its own way.
--
-- -> nothing of use
{briefly} fence FROM {head} WHERE name = '' FOR UPDATE

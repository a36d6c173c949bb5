// Package sqlstore is the lower floor of the SQL engines: how statements are written,
// bound and run. It knows nothing of claims and their order.
//
// A dialect implements [Store] on its client. The floor above relies on this:
//
//   - Run executes the steps of a [Batch] in order, as one transaction. The client makes
//     no decision between two steps, so that a dialect may send them all at once and a
//     client that stalls never keeps a row locked.
//   - Rows reach their step only if the transaction was committed, or rolled back on
//     purpose. If Run returns an error, the batch had no effect; if the outcome was not
//     learnt, the error is driver.ErrUnreachable or a raw one.
//   - A batch that is ReadOnly sees every batch that had ended when it began, and waits
//     for none.
//   - Every call returns soon after its ctx has ended.
package sqlstore

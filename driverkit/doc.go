// Package driverkit has the parts that engines have in common, so that a new engine
// writes only what its store does: changing a line of claims in one atomic step, and
// telling that it has changed. It knows package driver and no store. An engine may use
// any of the parts alone.
//
//	Await          the wait for a turn: subscribe, look, wait, look again
//	Waiter         wakes one waiting claim, and keeps a wake until the next Await
//	Waiters        finds waiters by claim or name, for notifications that name these
//	Recheck        when a waiter looks without having been notified
//	Subscriptions  one subscription per topic, kept up, with generations
//	Watchers       notified of departures, for driver.Watcher
//	Claims         a session's claims with the rule for tries, and its end
//	Sessions       an engine's open sessions and goroutines, and Close
//	ReadURL        hosts, parameters and TLS files, with errors that show no password
//	Refused        marks a subscription that the store denies
//	Pool           goroutines for calls of a client that do not end with ctx
//	Now            a clock that goes on while the machine sleeps
//	Pause, Signal  wait for a time or ctx; send to a channel of one unless it is full
//
// # An engine
//
// A store that compares and swaps values needs no engine of its own: see package kvline,
// which is one on this package, and whose example is a store. Any other engine is, in
// outline:
//
//	type engine struct {
//		client   *api.Client
//		sessions *driverkit.Sessions[*session]
//		watches  *driverkit.Subscriptions // by name
//		waiters  driverkit.Waiters
//		watchers driverkit.Watchers
//	}
//
//	type session struct {
//		e      *engine
//		ttl    time.Duration
//		claims *driverkit.Claims[claimState] // claimState: what the engine keeps with a claim
//	}
//
//	func (s *session) Enter(ctx context.Context, c driver.Claim) (driver.Standing, error) {
//		if _, _, err := s.claims.Add(ctx, c, claimState{}); err != nil { // before it is sent
//			return driver.Standing{}, err
//		}
//		// One atomic step in the store. Where the claim is certainly not in the line
//		// afterwards: s.claims.End(c). Where s.claims.Closed() by then: leave again.
//	}
//
//	func (s *session) Await(ctx context.Context, c driver.Claim, last driver.Standing) (driver.Standing, error) {
//		p := s.claims.Find(c.ID, c.Try)
//		if p == nil {
//			return driver.Standing{Gone: true}, nil
//		}
//		s.e.waiters.Add(c, &p.Waiter) // from here on a notification is not missed
//		defer s.e.waiters.Remove(c, &p.Waiter)
//		sub := s.e.watches.Open(c.Name, s.e.changed(c.Name))
//		if sub == nil {
//			return driver.Standing{}, driver.ErrGone
//		}
//		defer sub.Release(keep)
//		return driverkit.Await(ctx, s, &p.Waiter, sub, c, last)
//	}
//
// What remains is the engine's own: Enter, Look, Leave, Beat, Line, List and Evict, each
// of them a step on the line of one name, and the function that takes a notification to
// those it concerns.
//
// A store whose own sessions end claims, as Consul's, etcd's and ZooKeeper's do, says
// BySession in its Features and has less to do: no expiry per claim, and Beat prolongs
// the session. Which engine uses what:
//
//	memory    Claims, Await, Watchers, Sessions
//	Redis     Claims, Await, Subscriptions, Sessions, Recheck, Pool, ReadURL, Watchers
//	SQL       Claims, Await, Waiters, Watchers, Sessions, Recheck, Now, ReadURL, Pause
//	etcd      Sessions, ReadURL, Pause, Signal: a waiter's state is its watches
//	ZooKeeper Sessions, Pool, Now, ReadURL, Pause, Signal: the same
//	NATS      kvline, ReadURL, Refused, Now, Pause, Signal; kvline has Claims, Await,
//	          Watchers, Sessions, Subscriptions, Now, Pause
//	quorum    Sessions, Pool, ReadURL, Pause, Signal: a quorum has no line
//
// # What is easy to get wrong
//
// A claim is added to the table before it is sent, and removed only when it is certain
// that it is in no line. An Enter without an answer may have been carried out.
//
// A notification wakes the claims whose turn has come, and no others: with a thousand
// waiters the difference is a thousand looks for each departure.
//
// A token is made in the same step that enters the claim. One that was read from a
// counter before can be lower than a token that was held since.
package driverkit

package planted

import (
	"time"

	"github.com/pawl-go/pawl/driver"
)

// expiryBugs end claims too early, or do not prolong them, and tell their holders too late
// or not at all.
var expiryBugs = []bug{
	{
		Bug: Bug{"beat does not prolong",
			"A beat answers that the claim is prolonged, but the store still ends it one TTL after the Enter.", twoHolders},
		plant: func(t *store) hooks {
			return hooks{beat: func(s *session, live []driver.Claim, out []driver.Standing) error {
				for i, c := range live {
					if out[i] = s.stand(c); !out[i].Held && !out[i].Gone {
						_ = s.memBeat(live[i:i+1], out[i:i+1]) // places in line are prolonged
					}
				}
				return nil
			}}
		},
	},
	{
		Bug: Bug{"holder is not renewed while another waits",
			"A beat has no answer for a holder behind whom another waits: it loses its lease, in time, although nothing is wrong.", lostLeases},
		plant: func(t *store) hooks {
			return hooks{beat: func(s *session, live []driver.Claim, out []driver.Standing) error {
				for i, c := range live {
					if e, _ := t.find(c); !e.Held || len(t.waiting(c.Name)) == 0 {
						_ = s.memBeat(live[i:i+1], out[i:i+1])
					}
				}
				return nil
			}}
		},
	},
	{
		Bug: Bug{"beat revives a lost claim",
			"Claims end with their connection; a rival is granted; then the holder has a new connection, and its beat puts the claim back and answers that it was held all the time.", twoHolders},
		plant: func(t *store) hooks { return plantHiddenLoss(t, true) },
	},
	{
		Bug: Bug{"beat says held of a lost claim",
			"Claims end with their connection; beats on the next connection answer for what the client believes, without looking.", twoHolders},
		plant: func(t *store) hooks { return plantHiddenLoss(t, false) },
	},
	{
		Bug: Bug{"late loss signal",
			"Claims end with their connection, and a rival is granted at once; the holder learns it only at its next beat.", twoHolders},
		plant: func(t *store) hooks {
			return hooks{disconnected: func(s *session) {
				for _, e := range t.heldBy(s) {
					t.end(e)
				}
			}}
		},
	},
	{
		Bug: Bug{"store keeps a claim for half of what it promised",
			"A cut-off holder relies on a whole TTL after its last beat; the store grants to the next one after half of it.", twoHolders},
		plant: func(*store) hooks { return hooks{keep: func(ttl time.Duration) time.Duration { return ttl / 2 }} },
	},
	{
		Bug: Bug{"expiry judged by the client's clock",
			"A client whose clock is fast compares the expiry that the store has with its own time, and ends claims that have not expired.", twoHolders},
		plant: func(t *store) hooks {
			return hooks{enter: func(s *session, c driver.Claim) (driver.Standing, error) {
				if fast := s.id[len(s.id)-1]%2 == 0; fast {
					for _, e := range t.held(c.Name) {
						if e.Left < s.ttl*2/3 {
							t.end(e)
						}
					}
				}
				return s.memEnter(c)
			}}
		},
	},
}

// heldBy returns the claims that a session holds.
func (t *store) heldBy(s *session) (all []driver.Entry) {
	for e := range t.everything() {
		if e.Session == s.id && e.Held {
			all = append(all, e)
		}
	}
	return all
}

// plantHiddenLoss ends claims with their connection, and has beats answer as if they were
// still held.
func plantHiddenLoss(t *store, revive bool) hooks {
	lost := map[string]uint64{} // tokens by ID
	return hooks{
		disconnected: func(s *session) {
			for _, e := range t.heldBy(s) {
				lost[e.ID] = e.Fence
				t.end(e)
			}
		},
		beat: func(s *session, live []driver.Claim, out []driver.Standing) error {
			err := s.memBeat(live, out)
			for i, c := range live {
				token, wasLost := lost[c.ID]
				if !wasLost {
					continue
				}
				if out[i].Gone && revive {
					_, _ = s.memEnter(c)
				}
				out[i] = driver.Standing{Held: true, Token: token, Valid: s.ttl}
			}
			return err
		},
		leave: func(s *session, c driver.Claim) error {
			_, wasLost := lost[c.ID]
			delete(lost, c.ID)
			if err := s.memLeave(c); !wasLost {
				return err
			}
			return nil
		},
	}
}

package planted

import "github.com/pawl-go/pawl/driver"

// tokenBugs give tokens that a resource cannot compare.
var tokenBugs = []bug{
	{
		Bug: Bug{"token repeated",
			"The counter is written only with every eighth grant, and grants in between have the same token.", badTokens},
		plant: func(*store) hooks {
			return hooks{token: func(_ *session, _ driver.Claim, n uint64) uint64 { return n/8 + 1 }}
		},
	},
	{
		Bug: Bug{"token goes back",
			"Every sixteenth grant has a token that is smaller than those of the grants before it.", badTokens},
		plant: func(*store) hooks {
			return hooks{token: func(_ *session, _ driver.Claim, n uint64) uint64 {
				if n%16 == 0 && n > 64 {
					return (n-64)<<4 | 1
				}
				return n << 4
			}}
		},
	},
	{
		Bug: Bug{"tokens counted by each client",
			"Every session counts its own tokens from 1, so that those of two clients say nothing about their order.", badTokens},
		plant: func(*store) hooks {
			known := map[claimTry]uint64{}
			return hooks{token: func(s *session, c driver.Claim, _ uint64) uint64 {
				return remember(known, c, func() uint64 { s.count++; return s.count })
			}}
		},
	},
	{
		Bug: Bug{"token reused after a release",
			"The counter of a name is deleted with its last claim, and begins at 1 again.", badTokens},
		plant: plantForgottenCounter,
	},
	{
		Bug: Bug{"readers share a token",
			"A reader gets the token of the last writer, and so does the reader beside it.", badTokens},
		plant: func(*store) hooks {
			last := map[string]uint64{}
			known := map[claimTry]uint64{}
			return hooks{token: func(_ *session, c driver.Claim, n uint64) uint64 {
				return remember(known, c, func() uint64 {
					if !isReader(c) {
						last[c.Name] = n
						return n
					}
					return max(last[c.Name], 1)
				})
			}}
		},
	},
}

// A claimTry is one try of a claim, which keeps its token.
type claimTry struct {
	id  string
	try int
}

func remember(known map[claimTry]uint64, c driver.Claim, token func() uint64) uint64 {
	k := claimTry{c.ID, c.Try}
	if known[k] == 0 {
		known[k] = token()
	}
	return known[k]
}

func plantForgottenCounter(t *store) hooks {
	last := map[string]uint64{}
	known := map[claimTry]uint64{}
	return hooks{
		token: func(_ *session, c driver.Claim, _ uint64) uint64 {
			return remember(known, c, func() uint64 { last[c.Name]++; return last[c.Name] })
		},
		leave: func(s *session, c driver.Claim) error {
			err := s.memLeave(c)
			if len(t.entries(c.Name)) == 0 {
				delete(last, c.Name)
			}
			return err
		},
	}
}

package sqllock

import "context"

// buryIn ends the claims of dead processes in one claim's line and reports
// whether there were any. What they have in other lines is left to those who
// want something there: a caller must not pay for it.
func (e *Engine) buryIn(ctx context.Context, a *Args) (found bool, err error) {
	lives, err := e.read(ctx, e.q.occupants, a)
	if err != nil {
		return false, err
	}
	for _, live := range lives {
		done, dead := e.d.Census.Examine(live)
		if !dead {
			continue
		}
		err := e.buryLine(ctx, a.text[Name], live)
		done(err == nil && e.forgotten(ctx, live))
		if err != nil {
			return found, err
		}
		found = true
	}
	return found, nil
}

// forgotten reports whether no row names a process any more.
func (e *Engine) forgotten(ctx context.Context, live string) bool {
	a := &Args{}
	a.text[Live] = live
	rows, err := e.read(ctx, e.q.named, a)
	return err == nil && len(rows) == 0
}

// buryLine ends what a dead process has in one line, and lets in whoever fits.
func (e *Engine) buryLine(ctx context.Context, key, live string) error {
	var told []string
	a := &Args{}
	a.text[Name], a.text[Live] = key, live
	q := e.q
	return e.fly(ctx, &Flight{Steps: flight(a, &told, q.lock, q.expire, q.prune, q.buryX, q.bury,
		q.tally, q.promote, q.vacate, q.admit, q.count)}, &told)
}

func (e *Engine) buryDead(ctx context.Context, lives []string) (found bool, err error) {
	for _, live := range lives {
		buried, err := e.Bury(ctx, live)
		if err != nil {
			return found, err
		}
		found = found || buried
	}
	return found, nil
}

// Bury ends everything a process has in line, name by name, if it is dead, and
// tells the census when nothing is left. It may be repeated: who buries may die
// too.
func (e *Engine) Bury(ctx context.Context, live string) (buried bool, err error) {
	done, dead := e.d.Census.Examine(live)
	if !dead {
		return false, nil
	}
	defer func() { done(buried) }()
	a := &Args{}
	a.text[Live] = live
	keys, err := e.read(ctx, e.q.haunts, a)
	if err != nil {
		return false, err
	}
	for _, key := range keys {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if err := e.buryLine(ctx, key, live); err != nil {
			return false, err
		}
	}
	return true, nil
}

package sqllock

import "context"

// buryIn ends the claims of dead processes in one claim's line and reports
// whether there were any.
func (e *Engine) buryIn(ctx context.Context, a *Args) (bool, error) {
	lives, err := e.read(ctx, e.q.occupants, a)
	if err != nil {
		return false, err
	}
	return e.buryDead(ctx, lives)
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
	q := e.q
	for _, key := range keys {
		var told []string
		a := &Args{}
		a.text[Name], a.text[Live] = key, live
		err := e.fly(ctx, &Flight{Steps: flight(a, &told, q.lock, q.expire, q.prune, q.buryX, q.bury,
			q.tally, q.promote, q.vacate, q.admit, q.count)}, &told)
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

package kvline

import "github.com/pawl-go/pawl/driver"

// StoreOf returns the store of a session's engine.
func StoreOf(s driver.Session) Store { return s.(*session).e.store }

package main

import "testing"

func TestTheExampleKeepsItsWord(t *testing.T) {
	if err := run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

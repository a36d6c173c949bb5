// Command fenced is a writer that was paused for longer than its lease. It does not
// know, and writes; the file's fence refuses it.
//
//	go run ./examples/fenced
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/fence"
	"github.com/pawl-go/pawl/memlock"
)

func main() {
	dir, err := os.MkdirTemp("", "fenced")
	if err != nil {
		log.Fatal(err)
	}
	if err := errors.Join(run(context.Background(), dir), os.RemoveAll(dir)); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, dir string) error {
	c := pawl.New(memlock.New())
	defer c.Close()
	path := filepath.Join(dir, "balance")

	old, err := c.Mutex("balance").Lock(ctx)
	if err != nil {
		return err
	}
	paused := old.Token()                // what the paused writer believes
	if err := old.Unlock(); err != nil { // and what happened meanwhile
		return err
	}
	lease, err := c.Mutex("balance").Lock(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = lease.Unlock() }() // a loss is seen by the writes
	file := fence.NewFile(path)
	if err := file.Begin(fence.Write, lease.Token()); err != nil { // before anything is read
		return err
	}

	if err := file.WriteFile(paused, []byte("100"), 0o600); !errors.Is(err, fence.ErrStale) {
		return fmt.Errorf("the paused writer got in: %w", err)
	}
	if err := file.WriteFile(lease.Token(), []byte("250"), 0o600); err != nil {
		return err
	}
	balance, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	fmt.Printf("the paused writer was refused, the balance is %s\n", balance)
	return nil
}

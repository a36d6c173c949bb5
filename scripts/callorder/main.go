// Command callorder prints the files of the given packages in an order in which
// calls go down, and every call that goes up in that order.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/pawl-go/pawl/internal/callorder"
)

func main() {
	folders, err := callorder.Load(".", os.Args[1:]...)
	if err != nil {
		fmt.Fprintln(os.Stderr, "callorder:", err)
		os.Exit(1)
	}
	for _, f := range folders {
		order := f.Order()
		fmt.Printf("%s: %s\n", f.Dir, strings.Join(order, " "))
		for _, c := range f.Up(order) {
			fmt.Println("  UP", c)
		}
	}
}

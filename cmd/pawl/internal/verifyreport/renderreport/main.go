// Command renderreport writes the page of a run that it reads as JSON, for tests of the
// page in a browser.
package main

import (
	"bufio"
	"encoding/json"
	"log"
	"os"

	"github.com/pawl-go/pawl/cmd/pawl/internal/verifyreport"
)

func main() {
	log.SetFlags(0)
	if err := render(); err != nil {
		log.Fatal(err)
	}
}

func render() error {
	var r verifyreport.Run
	if err := json.NewDecoder(bufio.NewReader(os.Stdin)).Decode(&r); err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	if err := verifyreport.Write(out, r); err != nil {
		return err
	}
	return out.Flush()
}

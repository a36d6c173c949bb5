package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
)

func newReport(out io.Writer) *report {
	return &report{out: out, packages: map[string]*packageRun{}, count: map[string]int{}}
}

// run runs go test with these arguments and handles its events.
func (r *report) run(args []string) error {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	err = r.read(out)
	if err != nil {
		r.broken = append(r.broken, fmt.Sprintf("its output: %v", err))
		_, _ = io.Copy(io.Discard, out) // so that go test does not block
	}
	err = cmp.Or(cmd.Wait(), err)
	r.endUnfinished()
	return err
}

// read handles the events. Anything else is printed unchanged.
func (r *report) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		text, err := lines.ReadString('\n')
		if text != "" {
			var e event
			if json.Unmarshal([]byte(text), &e) != nil || e.Action == "" {
				fmt.Fprint(r.out, text)
			} else {
				r.handle(e)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *report) handle(e event) {
	if e.Action == "build-output" {
		fmt.Fprint(r.out, e.Output)
		return
	}
	if e.Package == "" {
		return
	}
	s := r.packages[e.Package]
	if s == nil {
		s = &packageRun{ended: map[string]string{}, report: r}
		r.packages[e.Package] = s
	}
	switch e.Action {
	case "output":
		s.lines = append(s.lines, line{e.Test, e.Output})
	case "run":
		s.ended[e.Test] = ""
	case "pass", "fail", "skip":
		if e.Test == "" {
			s.end(e)
			delete(r.packages, e.Package)
			return
		}
		s.ended[e.Test] = e.Action
		r.count[e.Action]++
		switch e.Action {
		case "skip":
			s.recordSkip(e)
		case "fail":
			s.recordFailure(e)
		}
	}
}

// endUnfinished ends the packages that were running when go test was interrupted.
func (r *report) endUnfinished() {
	for pkg, s := range r.packages {
		fmt.Fprintf(r.out, "%s did not end\n", pkg)
		s.end(event{Action: "fail", Package: pkg})
	}
}

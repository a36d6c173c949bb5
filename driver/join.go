package driver

import "strings"

// Join is errors.Join with its text in one line: errors.Is and errors.As find every
// error in it, and nil errors are left out. It returns nil if all are nil, and a single
// error as it is. Equal texts are shown once.
func Join(errs ...error) error {
	var one error
	n := 0
	for _, err := range errs {
		if err != nil {
			one = err
			n++
		}
	}
	if n <= 1 {
		return one
	}
	all := make([]error, 0, n)
	for _, err := range errs {
		if err != nil {
			all = append(all, err)
		}
	}
	return &joined{all}
}

// joined is several errors, none of them nil.
type joined struct{ errs []error }

// Error returns their texts, separated by semicolons.
func (j *joined) Error() string {
	all := ""
	for _, err := range j.errs {
		text := OneLine(err.Error())
		switch {
		case all == "":
			all = text
		case !strings.Contains(all, text): // servers of one store mostly fail alike
			all += "; " + text
		}
	}
	return all
}

// Unwrap returns all of them.
func (j *joined) Unwrap() []error { return j.errs }

// OneLine returns a text of several lines as one. The texts of stores and their clients
// may have any number of lines; an error that is logged or shown to a person has one.
func OneLine(text string) string {
	if !strings.ContainsAny(text, "\r\n") {
		return text
	}
	var b strings.Builder
	for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		switch before := b.String(); {
		case before == "":
		case strings.HasSuffix(before, ":"), strings.HasSuffix(before, ";"), strings.HasSuffix(before, ","):
			b.WriteString(" ") // it introduces this line
		default:
			b.WriteString("; ")
		}
		b.WriteString(line)
	}
	return b.String()
}

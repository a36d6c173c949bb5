package driver

import "strings"

// Join is errors.Join with its text in one line: errors.Is and errors.As find every
// error in it, nil ones are left out, and without any other it is nil. What has been
// said already is not said again.
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

// joined is several errors, of which none is nil.
type joined struct{ errs []error }

// Error returns what they say, with semicolons between.
func (j *joined) Error() string {
	said := ""
	for _, err := range j.errs {
		text := OneLine(err.Error())
		switch {
		case said == "":
			said = text
		case !strings.Contains(said, text): // servers of one store mostly fail alike
			said += "; " + text
		}
	}
	return said
}

// Unwrap returns all of them.
func (j *joined) Unwrap() []error { return j.errs }

// OneLine returns a text of several lines as one. A store's or a client's own words may
// have any number of them; an error that is logged or shown to a person has one.
func OneLine(text string) string {
	if !strings.ContainsAny(text, "\r\n") {
		return text
	}
	var b strings.Builder
	for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		switch said := b.String(); {
		case said == "":
		case strings.HasSuffix(said, ":"), strings.HasSuffix(said, ";"), strings.HasSuffix(said, ","):
			b.WriteString(" ") // it announces what follows
		default:
			b.WriteString("; ")
		}
		b.WriteString(line)
	}
	return b.String()
}

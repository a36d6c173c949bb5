package claimview

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// ToJSON encodes v. It escapes hidden characters, which does not change the value
// for a parser. An empty list of claims is [], not null.
func ToJSON(v any, indent string) ([]byte, error) {
	if list, ok := v.([]Claim); ok && list == nil {
		v = []Claim{}
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetIndent("", indent)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	// The encoder has escaped everything below the space; all characters beyond
	// ASCII are inside strings.
	var out []byte
	for _, r := range b.String() {
		switch {
		case r == '\n' || !Hidden(r):
			out = utf8.AppendRune(out, r)
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out, nil
}

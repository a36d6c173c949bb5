// Package pagestyle is the style that the pages of the command share: the dashboard and
// the report of verify.
package pagestyle

import _ "embed"

// Base is a style sheet. That of a page follows it.
//
//go:embed base.css
var Base string

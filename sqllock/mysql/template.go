package mysql

import (
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/pawl-go/pawl/sqllock"
)

// A template is a statement, or several, into which values are written. We write
// them ourselves, so that several statements are one text on any client's
// connection: numbers as they are, texts and bytes in hexadecimal, which no mode
// of the server and no character set reads otherwise.
type template struct {
	pieces []string // around the parameters
	params []sqllock.Param
	yields bool       // its last statement has a result
	parts  []template // the statements by themselves; nil in a part
}

func (k *server) template(q *sqllock.Query) *template {
	if t, ok := k.templates.Load(q); ok {
		return t.(*template)
	}
	t := newTemplate(q.Text, q.Params)
	params := q.Params
	for part := range strings.SplitSeq(q.Text, ";\n") {
		n := strings.Count(part, "?")
		t.parts = append(t.parts, newTemplate(part, params[:n]))
		params = params[n:]
	}
	t.yields = t.parts[len(t.parts)-1].yields
	got, _ := k.templates.LoadOrStore(q, &t)
	return got.(*template)
}

func newTemplate(text string, params []sqllock.Param) template {
	return template{pieces: strings.Split(text, "?"), params: params,
		yields: strings.HasPrefix(text, "SELECT") || strings.HasPrefix(text, "WITH") || strings.HasPrefix(text, briefly)}
}

func (t *template) append(to []byte, a *sqllock.Args) []byte {
	for i, p := range t.params {
		to = append(to, t.pieces[i]...)
		switch {
		case p.IsInt():
			to = strconv.AppendInt(to, a.Int(p), 10)
		case p.IsText():
			to = appendHex(to, []byte(a.Text(p)))
		case p == sqllock.Names, p == sqllock.Pairs:
			to = appendList(to, p, a.List())
		default:
			to = appendHex(to, a.Blob())
		}
	}
	return append(to, t.pieces[len(t.pieces)-1]...)
}

// appendList writes a parameter of many claims, with commas between.
func appendList(to []byte, p sqllock.Param, list []*sqllock.Args) []byte {
	for i, a := range list {
		if i > 0 {
			to = append(to, ',')
		}
		if p == sqllock.Names {
			to = appendHex(to, []byte(a.Text(sqllock.Name)))
			continue
		}
		to = appendHex(append(to, '('), []byte(a.Text(sqllock.ID)))
		to = append(strconv.AppendInt(append(to, ','), a.Int(sqllock.Try), 10), ')')
	}
	return to
}

func appendHex(to, b []byte) []byte {
	if len(b) == 0 {
		return append(to, "''"...)
	}
	to = append(to, "x'"...)
	to = hex.AppendEncode(to, b)
	return append(to, '\'')
}

// valueAlone ends a statement whose value comes with the answer to the statement
// before it.
const valueAlone = "SELECT LAST_INSERT_ID() - 1 FROM dual WHERE "

// valued returns the one statement that a step needs if it is a flight of its
// own and its value comes with the answer; nil if it is not so.
func (k *server) valued(s *sqllock.Step) *template {
	t := k.template(s.Query)
	if len(t.parts) == 2 && strings.HasPrefix(t.parts[1].pieces[0], valueAlone) {
		return &t.parts[0]
	}
	return nil
}

// args are the values of a template's parameters, for a prepared statement.
func (t *template) args(a *sqllock.Args) []any {
	all := make([]any, len(t.params))
	for i, p := range t.params {
		all[i] = a.Arg(p)
	}
	return all
}

package mysql

import (
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// A template is a statement, or several, into which values are written as text, so that
// any client can send several statements at once. Numbers are written in decimal, texts
// and bytes in hexadecimal, which no sql_mode and no character set interprets.
type template struct {
	pieces  []string // around the parameters
	params  []sqlstore.Param
	returns bool       // its last statement has a result
	parts   []template // the statements by themselves; nil in a part
}

func (k *server) template(q *sqlstore.Statement) *template {
	if t, ok := k.templates.Load(q); ok {
		return t.(*template)
	}
	text, params := qualify(q.Text, k.database), q.Params
	t := newTemplate(text, params)
	for part := range strings.SplitSeq(text, ";\n") {
		n := strings.Count(part, "?")
		t.parts = append(t.parts, newTemplate(part, params[:n]))
		params = params[n:]
	}
	t.returns = t.parts[len(t.parts)-1].returns
	got, _ := k.templates.LoadOrStore(q, &t)
	return got.(*template)
}

func newTemplate(text string, params []sqlstore.Param) template {
	return template{pieces: strings.Split(text, "?"), params: params,
		returns: strings.HasPrefix(text, "SELECT") || strings.HasPrefix(text, "WITH") || strings.HasPrefix(text, select20ms)}
}

// append writes the statement with its values.
func (t *template) append(to []byte, a *sqlstore.Args) []byte {
	for i, p := range t.params {
		to = append(to, t.pieces[i]...)
		switch {
		case p.IsInt():
			to = strconv.AppendInt(to, a.Num[p], 10)
		case p.IsText():
			to = appendHex(to, []byte(a.Text[p]))
		case p.IsList():
			to = appendList(to, p, a.List)
		default:
			to = appendHex(to, a.Value)
		}
	}
	return append(to, t.pieces[len(t.pieces)-1]...)
}

// appendList writes a list with commas, or rows as a query.
func appendList(to []byte, p sqlstore.Param, list []*sqlstore.Args) []byte {
	for i, a := range list {
		switch {
		case i > 0 && p == sqlstore.Claims:
			to = append(to, " UNION ALL "...)
		case i > 0:
			to = append(to, ',')
		}
		switch p {
		case sqlstore.Names:
			to = appendHex(to, []byte(a.Key()))
			continue
		case sqlstore.IDs:
			to = appendHex(to, []byte(a.Text[sqlstore.ID]))
			continue
		case sqlstore.Claims:
			to = append(appendHex(append(to, "SELECT "...), []byte(a.Key())), " AS name,"...)
			to = append(strconv.AppendInt(to, a.Num[sqlstore.Token], 10), " AS token,"...)
			to = append(appendHex(to, []byte(a.Text[sqlstore.ID])), " AS id,"...)
			to = append(strconv.AppendInt(to, a.Num[sqlstore.Try], 10), " AS try"...)
			continue
		}
		to = appendHex(append(to, '('), []byte(a.Text[sqlstore.ID]))
		to = append(strconv.AppendInt(append(to, ','), a.Num[sqlstore.Try], 10), ')')
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

// selectLastInsertID begins the second of two statements that only reads a value which
// the server sends with its OK to the first.
const selectLastInsertID = "SELECT LAST_INSERT_ID() - 1 FROM dual WHERE "

// resultInOK returns the first statement of a step whose result comes with the server's
// OK to it, so that a batch of this step need not send the second; nil for other steps.
func (k *server) resultInOK(s *sqlstore.Step) *template {
	t := k.template(s.Statement)
	if len(t.parts) == 2 && strings.HasPrefix(t.parts[1].pieces[0], selectLastInsertID) {
		return &t.parts[0]
	}
	return nil
}

// args returns the values of a template's parameters, for a prepared statement.
func (t *template) args(a *sqlstore.Args) []any {
	all := make([]any, len(t.params))
	for i, p := range t.params {
		all[i] = a.Arg(p)
	}
	return all
}

// Package mysqldoctor examines a MySQL or MariaDB server, for package doctor: its role,
// pawl's tables and the rights to them, what survives a crash and a failover, and what
// slows locks down. It reads variables and statistics, and changes nothing: rights to
// change tables are found out by EXPLAIN, which checks them and executes nothing.
package mysqldoctor

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/sqldoctor/internal/sqlexam"

	_ "github.com/pawl-go/pawl/sqllock/mysql" // the engine that is opened
)

func init() { doctor.Register("mysql", examine) }

// server is what is read of a server before the checks.
type server struct {
	*sqlexam.Server
	session map[string]string // variables of this session
	global  map[string]string // variables of the server, which new sessions begin with
	status  map[string]string
	user    string // quoted, as it stands in statements
	mariaDB bool
	replica bool // of another server
	hidden  bool // this user may not read whether it is one
	tables  []table
}

type check = sqlexam.Check[*server]

var checks = []check{
	{Name: "version", Look: version},
	{Name: "role", Look: role, Shared: true},
	{Name: "multi-primary", Look: multiPrimary},
	{Name: "tables", Look: tablesThere, Shared: true},
	{Name: "rights", Look: rights},
	{Name: "crash safety", Look: crashSafety},
	{Name: "binary log", Look: binaryLog},
	{Name: "replicas", Look: replicas},
	{Name: "timeouts", Look: timeouts},
	{Name: "session defaults", Look: sessionDefaults},
	{Name: "isolation level", Look: isolation},
	{Name: "connections", Look: connections},
	{Name: "clock", Look: clock},
	{Name: "round trip", Look: roundTrip},
	{Name: "long transactions", Look: longTransactions},
}

func examine(ctx context.Context, u *url.URL) ([]doctor.Finding, error) {
	return sqlexam.Examine(ctx, u, func(ctx context.Context, on *sqlexam.Server) ([]doctor.Finding, error) {
		s := &server{Server: on}
		if err := s.read(ctx); err != nil {
			return nil, err
		}
		return sqlexam.Run(ctx, s, checks), nil
	})
}

func (s *server) read(ctx context.Context) (err error) {
	if s.session, err = s.Pairs(ctx, "SHOW SESSION VARIABLES"); err != nil {
		return err
	}
	if s.global, err = s.Pairs(ctx, "SHOW GLOBAL VARIABLES"); err != nil {
		return err
	}
	if s.status, err = s.Pairs(ctx, "SHOW GLOBAL STATUS"); err != nil {
		return err
	}
	user, err := s.One(ctx, "SELECT CURRENT_USER()")
	if err != nil {
		return err
	}
	at := max(strings.LastIndex(user, "@"), 0)
	quote := strings.NewReplacer("'", "''").Replace
	s.user = fmt.Sprintf("'%s'@'%s'", quote(user[:at]), quote(strings.TrimPrefix(user[at:], "@")))
	s.mariaDB = strings.Contains(s.global["version"], "MariaDB")
	if s.replica, err = s.isReplica(ctx); err != nil {
		return err
	}
	return s.readTables(ctx)
}

// isReplica reports whether the server replicates from another one.
func (s *server) isReplica(ctx context.Context) (bool, error) {
	if s.mariaDB {
		return isSet(s.status["slaves_running"]), nil
	}
	n, err := s.One(ctx, "SELECT COUNT(*) FROM performance_schema.replication_connection_status WHERE SERVICE_STATE <> 'OFF' AND CHANNEL_NAME NOT LIKE 'group\\_replication\\_%'")
	if errors.Is(err, driver.ErrDenied) {
		s.hidden = true
		return false, nil
	}
	return isSet(n), err
}

// on reports whether a variable is switched on.
func on(value string) bool { return strings.EqualFold(value, "ON") || value == "1" }

// set returns the statement that sets a variable of the server, for good where the server
// can do that.
func (s *server) set(name, value string) string {
	if s.mariaDB {
		return fmt.Sprintf("SET GLOBAL %s = %s;", name, value)
	}
	return fmt.Sprintf("SET PERSIST %s = %s;", name, value)
}

func version(_ context.Context, s *server) (doctor.Finding, error) {
	product, oldest := "MySQL", [3]int{8, 0, 1}
	if s.mariaDB {
		product, oldest = "MariaDB", [3]int{10, 6, 0}
	}
	number, _ := s.release()
	if s.before(oldest) {
		return doctor.Break("", product+" "+number, fmt.Sprintf("The statements of pawl need version %d.%d.%d or later.", oldest[0], oldest[1], oldest[2]),
			"apt-get install default-mysql-server"), nil
	}
	return doctor.Good("", product+" "+number), nil
}

// release returns the version of the server.
func (s *server) release() (text string, have [3]int) {
	text, _, _ = strings.Cut(strings.TrimPrefix(s.global["version"], "5.5.5-"), "-")
	for i, part := range strings.SplitN(text, ".", 3) {
		have[i], _ = strconv.Atoi(part)
	}
	return text, have
}

func (s *server) before(version [3]int) bool {
	_, have := s.release()
	return slices.Compare(have[:], version[:]) < 0
}

// primary is the mend at a replica: to make it read-only would end the locks of this URL.
const primary = "-s 'mysql://PRIMARY/DATABASE'"

func role(_ context.Context, s *server) (doctor.Finding, error) {
	name := s.readOnly()
	if name == "" {
		return doctor.Good("", "the server accepts writes"), nil
	}
	mend := s.set(name, "OFF")
	switch {
	case s.replica:
		mend = primary
	case name == "innodb_read_only":
		mend = "innodb_read_only = OFF"
	}
	return doctor.Break("", name+" is "+s.global[name], "No lock can be taken here: the server accepts no writes.", mend), nil
}

// readOnly returns the variable that keeps this user, or everybody, from writing; "" if
// none does.
func (s *server) readOnly() string {
	for _, name := range []string{"innodb_read_only", "read_only", "transaction_read_only", "tx_read_only"} {
		if isSet(s.global[name]) {
			return name
		}
	}
	return ""
}

// isSet reports whether a variable is on, or, in newer servers, a word for what is not
// permitted.
func isSet(value string) bool { return value != "" && value != "0" && !strings.EqualFold(value, "OFF") }

func multiPrimary(_ context.Context, s *server) (doctor.Finding, error) {
	const meaning = "A row that is locked on one server is not locked on the others: two grant the same lock."
	found := ""
	switch {
	case on(s.global["wsrep_on"]) && s.global["wsrep_provider"] != "none": // without a provider it is a server of its own
		found = "the server is one of a Galera cluster"
	case strings.EqualFold(s.global["group_replication_single_primary_mode"], "OFF"):
		found = "the server is one of a group with several primaries"
	case s.replica && !isSet(s.global["read_only"]):
		return doctor.Warn("", "the server accepts writes and replicates from another", "If clients lock on both servers, two hold the same lock.", primary), nil
	case s.hidden:
		return doctor.Warn("", "no group; "+s.user+" may not read whether the server replicates from another", "If it does and accepts writes too, two clients may hold the same lock, each on another server.",
			fmt.Sprintf("GRANT SELECT ON performance_schema.replication_connection_status TO %s;", s.user)), nil
	default:
		return doctor.Good("", "no other server accepts writes for this one"), nil
	}
	if s.MultiPrimary {
		return doctor.Warn("", found+", and the URL permits it", "Locks hold only if all clients use this very server, also after a failover.",
			"-s 'mysql://PRIMARY/DATABASE', of a group with a single primary"), nil
	}
	return doctor.Break("", found, meaning+" pawl refuses it.", "-s 'mysql://SERVER/DATABASE?multi_primary=allow', if all clients use the same SERVER"), nil
}

func clock(ctx context.Context, s *server) (doctor.Finding, error) {
	return s.Clock(ctx, "SELECT TIMESTAMPDIFF(MICROSECOND, DATE'1970-01-01', UTC_TIMESTAMP(6))"), nil
}

func roundTrip(ctx context.Context, s *server) (doctor.Finding, error) { return s.RoundTrip(ctx), nil }

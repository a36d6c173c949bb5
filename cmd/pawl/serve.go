package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl/cmd/pawl/internal/claimview"
	"github.com/pawl-go/pawl/cmd/pawl/internal/dashboard"
)

// serveFlags are the flags of serve.
type serveFlags struct {
	listen       string
	passwordFile string
	tlsCert      string
	tlsKey       string
	clientCA     string
	allowHosts   []string
	classes      []string
	allowUnlock  bool
}

func (a *app) serveCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Show locks on a web page: lines, who blocks whom, history, metrics",
		Long: `serve shows the locks of a store on a web page, which changes as they do: who holds
what, who waits and for how long, who blocks whom, and what happened to a lock since
serve started. It lists the store at most once a second, however many browsers look;
what lasted less than that may be missing.

  /                 the lines; the one that causes most waiting first
  /tree             who blocks whom
  /metrics          for Prometheus, by class: --class 'orders/*=orders'
  /api/v1/locks     what pawl ls --json prints
  /healthz          200 while it serves; the text says whether the store is up

On a loopback address no password is needed, so every user of this machine can look. Any
other address needs a password, in a file that others cannot read, or certificates of the
clients. Browsers have to use a name or address of this machine; add others, such as the
name of a proxy or of the near end of a tunnel, with --allow-host.

Nothing can be changed, unless --allow-unlock is given, which needs a password or
certificates on every address: the page of a lock then has a form to break it, as
force-unlock does, and each attempt is printed as an audit line.

The file of PAWL_STORE_FILE is read again on SIGHUP, and when the store refuses the
password.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			reload := make(chan os.Signal, 1)
			signal.Notify(reload, syscall.SIGHUP)
			defer signal.Stop(reload)
			return a.serve(ctx, f, reload)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", "127.0.0.1:7295", "the `ADDRESS` to listen on; port 0 chooses a free one")
	flags.StringVar(&f.passwordFile, "password-file", "", "a `FILE` with the password, which requests give with any user name")
	flags.StringVar(&f.tlsCert, "tls-cert", "", "serve HTTPS with the certificate in this `FILE`")
	flags.StringVar(&f.tlsKey, "tls-key", "", "the certificate's key, a `FILE`")
	flags.StringVar(&f.clientCA, "client-ca", "", "require client certificates that the authorities in this `FILE` signed")
	flags.StringArrayVar(&f.allowHosts, "allow-host", nil, "another `NAME` of this server, with any port (repeatable)")
	flags.StringArrayVar(&f.classes, "class", nil, "count names that match in metrics as a class, `PATTERN=CLASS` (repeatable; the first match counts)")
	flags.BoolVar(&f.allowUnlock, "allow-unlock", false, "let the page break locks")
	return cmd
}

// serve serves until ctx ends, and reads the store's URL again at each reload.
func (a *app) serve(ctx context.Context, f serveFlags, reload <-chan os.Signal) error {
	classes, err := parseClasses(f.classes)
	if err != nil {
		return err
	}
	addr, err := f.address()
	if err != nil {
		return err
	}
	hosts, err := f.hosts()
	if err != nil {
		return err
	}
	password, config, err := f.credentials(addr)
	if err != nil {
		return err
	}
	st, err := a.findStore()
	if err != nil {
		return err
	}
	listener, err := net.ListenTCP("tcp", addr)
	if err != nil {
		return &exitError{exitFailed, fmt.Errorf("--listen %s: %w", f.listen, withoutOp(err))}
	}
	defer listener.Close()
	seen := &servedStore{app: a, store: st, denials: make(chan struct{}, 1)}
	ended, followed := make(chan struct{}), make(chan struct{})
	go func() { // ends with ended; the end of serve waits for it
		defer close(followed)
		seen.follow(reload, ended)
	}()
	defer func() {
		close(ended)
		<-followed
		seen.close()
	}()
	o := dashboard.Options{
		Store: seen, Shown: claimview.EscapeHidden(st.shown), Explain: explainForPage, Classes: classes,
		Password: password, WrongPasswords: a.sayWrongPasswords, Port: listener.Addr().(*net.TCPAddr).Port, Names: f.names(addr), Hosts: hosts,
	}
	if f.allowUnlock {
		o.Evict, o.Audit = seen.evict, a.auditUnlock
	}
	if password != "" && config == nil && !addr.IP.IsLoopback() {
		a.say("warning: the password crosses the network unencrypted; use --tls-cert and --tls-key, or a proxy that encrypts")
	}
	return a.serveOn(ctx, listener, config, dashboard.New(o))
}

// Limits of the HTTP server. Streams set their own deadlines for writing.
const (
	serveReadLimit  = 10 * time.Second
	serveWriteLimit = 60 * time.Second
	serveIdleLimit  = 2 * time.Minute
	serveMaxHeader  = 32 << 10
	serveShutdown   = time.Second     // for answers under way when serve ends
	serveFirst      = 3 * time.Second // for the first listing, before the address is said
)

// serveOn lists and serves until ctx ends, or until the first listing says that the
// store will never answer.
func (a *app) serveOn(ctx context.Context, l net.Listener, config *tls.Config, d *dashboard.Dashboard) error {
	ctx, stop := context.WithCancel(ctx)
	first, polled := make(chan error, 1), make(chan struct{})
	go func() { // ends with ctx; serveOn waits for it
		defer close(polled)
		d.Run(ctx, func(err error) { first <- err })
	}()
	defer func() { stop(); <-polled }()
	// A wrong password is told before the address, if the store answers soon.
	early := time.NewTimer(serveFirst)
	defer early.Stop()
	select {
	case err := <-first:
		if dashboard.Refused(err) {
			return err
		}
		if err != nil {
			a.say("warning: %s; the page says when it is back", explainForPage(err))
		}
	case <-early.C:
	case <-ctx.Done():
		return nil
	}
	server := &http.Server{
		Handler: d.Handler(), ErrorLog: log.New(panicLog{a}, "", 0), TLSConfig: config, MaxHeaderBytes: serveMaxHeader,
		ReadHeaderTimeout: serveReadLimit, ReadTimeout: serveReadLimit, WriteTimeout: serveWriteLimit, IdleTimeout: serveIdleLimit,
	}
	a.say("serving on %s", shownAddress(l.Addr().(*net.TCPAddr), config != nil))
	served := make(chan error, 1)
	go func() { served <- serveHTTP(server, l) }() // ends with Shutdown or Close; what is returned below waits for it
	for {
		select {
		case err := <-served:
			return &exitError{exitFailed, err}
		case err := <-first:
			if dashboard.Refused(err) {
				_ = server.Close()
				<-served
				return err
			}
		case <-ctx.Done():
			<-polled // the streams end
			shutDown(server)
			<-served
			return nil
		}
	}
}

// serveHTTP serves HTTP, or HTTPS if the server has certificates.
func serveHTTP(server *http.Server, l net.Listener) error {
	if server.TLSConfig != nil {
		return server.ServeTLS(l, "", "")
	}
	return server.Serve(l)
}

// shutDown ends a server, after the answers that are under way.
func shutDown(server *http.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), serveShutdown)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		_ = server.Close()
	}
}

// A panicLog prints what the HTTP server logs of a panic. The rest is about clients
// that do not keep to the protocol.
type panicLog struct{ app *app }

// Write prints the first line of a panic.
func (p panicLog) Write(b []byte) (int, error) {
	if line, _, _ := strings.Cut(string(b), "\n"); strings.Contains(line, "panic serving") {
		p.app.say("%s", line)
	}
	return len(b), nil
}

// parseClasses parses the values of --class. A pattern may contain =, a class may not.
func parseClasses(values []string) (all []dashboard.Class, err error) {
	for _, v := range values {
		at := strings.LastIndexByte(v, '=')
		if at < 1 || at == len(v)-1 {
			return nil, usagef("--class %s: write PATTERN=CLASS, such as 'orders/*=orders'", v)
		}
		if !utf8.ValidString(v) { // Prometheus drops all metrics then
			return nil, usagef("--class %q: not valid UTF-8", v)
		}
		pattern, err := claimview.Pattern(v[:at])
		if err != nil {
			return nil, usagef("--class %w", err)
		}
		all = append(all, dashboard.Class{Selection: pattern, Name: v[at+1:]})
	}
	return all, nil
}

// explainForPage returns the text of a store's error, in which a URL has no user.
func explainForPage(err error) string {
	return claimview.EscapeHidden(userInURL.ReplaceAllStringFunc(oneLine(err), hideUser))
}

// sayWrongPasswords prints that an address has sent many wrong passwords.
func (a *app) sayWrongPasswords(client netip.Addr) {
	a.say("warning: many wrong passwords from %s; its requests are slowed down for a minute", client)
}

// auditUnlock prints an audit line about an attempt to break a lock.
func (a *app) auditUnlock(u dashboard.Unlock) {
	who := " remote=" + auditWord(u.Remote) + " user=" + strconv.Quote(u.User)
	if u.Entry != nil {
		a.audit(who, *u.Entry)
		return
	}
	what := "refused"
	if u.Unknown {
		what = "unknown"
	}
	a.show("%s%s "+what+"=%q token=%s result=%q\n", auditStart(), who, u.Name, auditWord(u.Token), u.Result)
}

// withoutOp returns the reason of a network error without the address, which is
// named beside it.
func withoutOp(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}

package testserver

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// ZooKeeper starts a ZooKeeper with one node, without users. Its tick is 200 ms, so
// that sessions can be as short as 400 ms; the longest is 60 s. Data survives Kill
// and Restart, though not a power cut. lines are added to its configuration file,
// such as "maxClientCnxns=5", or to its command line if they are properties, such
// as "-Dznode.container.checkIntervalMs=100".
func ZooKeeper(t testing.TB, lines ...string) *Server {
	t.Helper()
	return Start(t, zooKeeper(lines...))
}

func zooKeeper(lines ...string) Spec {
	return Spec{
		Name:    "zookeeper",
		Package: "zookeeper default-jre-headless",
		Binary:  File{"java"},
		Beside:  []File{{"/usr/share/java/zookeeper.jar", "/usr/share/zookeeper/zookeeper-*.jar"}},
		Prepare: func(_ context.Context, s *Server) error { return writeZooKeeperConfig(s, lines) },
		Args: func(s *Server) []string {
			return zooKeeperArgs(s, "org.apache.zookeeper.server.ZooKeeperServerMain", lines)
		},
		Ready: zooKeeperReady,
	}
}

func writeZooKeeperConfig(s *Server, lines []string) error {
	config := append([]string{
		"clientPortAddress=127.0.0.1",
		fmt.Sprintf("clientPort=%d", s.Port()),
		"dataDir=" + filepath.ToSlash(filepath.Join(s.Dir(), "data")),
		"tickTime=200",
		"maxSessionTimeout=60000",
		"maxClientCnxns=0",
		"admin.enableServer=false",
		"4lw.commands.whitelist=*",
		"forceSync=no", // makes a difference only if the whole machine crashes
	}, slices.DeleteFunc(slices.Clone(lines), isProperty)...)
	return os.WriteFile(zooKeeperConfig(s), []byte(strings.Join(config, "\n")+"\n"), 0o644)
}

func isProperty(line string) bool { return strings.HasPrefix(line, "-") }

func zooKeeperArgs(s *Server, class string, lines []string) []string {
	classes := []string{
		s.Beside(0), // refers to its dependencies in Debian's paths
		filepath.Join(filepath.Dir(s.Beside(0)), "lib", "*"),
		"/usr/share/java/slf4j-simple.jar", // logs to stderr
	}
	args := []string{
		"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", // starts fast and stays small
		"-Dzookeeper.jmx.log4j.disable=true",
	}
	for _, line := range lines {
		if isProperty(line) {
			args = append(args, line)
		}
	}
	return append(args, "-cp", strings.Join(classes, string(filepath.ListSeparator)), class, zooKeeperConfig(s))
}

func zooKeeperConfig(s *Server) string { return filepath.Join(s.Dir(), "zoo.cfg") }

// zooKeeperReady asks for the mode, which only a serving node reports.
func zooKeeperReady(ctx context.Context, s *Server) error {
	_, err := zooKeeperMode(ctx, s)
	return err
}

// zooKeeperMode returns the role of a node: standalone, leader or follower.
func zooKeeperMode(ctx context.Context, s *Server) (string, error) {
	conn, err := dial(ctx, s)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "srvr"); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		return "", err
	}
	_, mode, serves := strings.Cut(string(answer), "Mode: ")
	if !serves {
		return "", fmt.Errorf("srvr answered %q", answer)
	}
	mode, _, _ = strings.Cut(mode, "\n")
	return mode, nil
}

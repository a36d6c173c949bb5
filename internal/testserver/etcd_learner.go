package testserver

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// AddLearner adds a member without a vote, and returns it when it serves. It is not one of
// c.Members. The cluster must have been started without a Reach.
func (c *EtcdCluster) AddLearner() *Server {
	c.t.Helper()
	port := FreePort(c.t)
	peer := fmt.Sprintf("http://127.0.0.1:%d", port)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var added struct{}
	err := etcdPost(ctx, c.Members[0], "/v3/cluster/member/add", fmt.Sprintf(`{"peerURLs": [%q], "isLearner": true}`, peer), &added)
	if err != nil {
		c.t.Fatalf("add a learner: %v", err)
	}
	return c.StartAdded(port)
}

// StartAdded starts a member that was added with the peer URL http://127.0.0.1:port, and
// returns it when it serves. It is not one of c.Members.
func (c *EtcdCluster) StartAdded(port int) *Server {
	c.t.Helper()
	peer := fmt.Sprintf("http://127.0.0.1:%d", port)
	spec := newEtcd(c.t)
	spec.Ports = 1
	spec.Ready = func(ctx context.Context, s *Server) error {
		got, err := etcdStatus(ctx, s)
		if err == nil && got.Leader == "0" {
			err = fmt.Errorf("it knows no leader")
		}
		return err
	}
	c.urls = append(c.urls, peer)
	spec.Args = clusterArgs(len(c.urls)-1, port, slices.Clone(c.urls), []string{"--initial-cluster-state=existing"})
	added := Start(c.t, spec)
	c.t.Cleanup(added.Kill) // before the members, whom a promoted one would ask for leave
	return added
}

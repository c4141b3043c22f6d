package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// startEtcd starts Debian's etcd-server as a cluster of one. Every write is on
// disk before its answer.
func startEtcd(ctx context.Context, say func(string, ...any)) (*daemon, error) {
	p, err := find(ctx, "etcd", []string{"etcd-server"}, say)
	if err != nil {
		return nil, err
	}
	clients, err := freePort()
	if err != nil {
		return nil, err
	}
	peers, err := freePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "doclock-bench-etcd-")
	if err != nil {
		return nil, err
	}
	address := fmt.Sprintf("127.0.0.1:%d", clients)
	url, peer := "http://"+address, fmt.Sprintf("http://127.0.0.1:%d", peers)
	d, err := startDaemon(ctx, p, address, dir, "--data-dir", dir+"/data", "--name", "one",
		"--listen-client-urls", url, "--advertise-client-urls", url, "--listen-peer-urls", peer,
		"--initial-advertise-peer-urls", peer, "--initial-cluster", "one="+peer, "--log-level", "error")
	if err != nil {
		return nil, err
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{address}, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	status, err := client.Status(ctx, address)
	if err != nil {
		_ = d.stop()
		return nil, err
	}
	d.about = fmt.Sprintf("etcd %s, a cluster of one (each write is on disk before its answer)", status.Version)
	return d, nil
}

// etcdSubject is etcd's own concurrency.Mutex: waiters queue by key, and watch
// the one before them. A mutex belongs to a session (a lease that is kept
// alive), and within one session all holders count as one. So each goroutine
// that waits or holds has its own session. The sessions are made before the
// measurement, and reused.
type etcdSubject struct {
	base
	etcd *clientv3.Client

	mu   sync.Mutex
	idle []*concurrency.Session
}

func openEtcd(_ context.Context, s *servers, ttl time.Duration) (subject, error) {
	e := &etcdSubject{}
	if err := e.open(s, ttl); err != nil {
		return nil, err
	}
	dialing := e.counter.etcd()
	if s.Network != nil {
		dialing = append(dialing, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return s.Network.DialContext(ctx, "tcp", address)
		}))
	}
	var err error
	e.etcd, err = clientv3.New(clientv3.Config{Endpoints: []string{s.Etcd}, DialOptions: dialing, Logger: zap.NewNop()})
	return e, err
}

func (e *etcdSubject) warm(_ context.Context, n int) error {
	for len(e.idle) < n {
		s, err := concurrency.NewSession(e.etcd, concurrency.WithTTL(max(1, int(e.ttl.Seconds()))))
		if err != nil {
			return err
		}
		e.giveBack(s)
	}
	return nil
}

func (e *etcdSubject) session() (*concurrency.Session, error) {
	e.mu.Lock()
	if last := len(e.idle) - 1; last >= 0 {
		s := e.idle[last]
		e.idle = e.idle[:last]
		e.mu.Unlock()
		return s, nil
	}
	e.mu.Unlock()
	return concurrency.NewSession(e.etcd, concurrency.WithTTL(max(1, int(e.ttl.Seconds()))))
}

func (e *etcdSubject) giveBack(s *concurrency.Session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.idle = append(e.idle, s)
}

func (e *etcdSubject) lock(ctx context.Context, key string) (unlock, error) {
	s, err := e.session()
	if err != nil {
		return nil, err
	}
	mutex := concurrency.NewMutex(s, "/doclock-bench/"+key)
	if err := mutex.Lock(ctx); err != nil {
		s.Orphan() // its entry in the queue ends with its lease
		_, _ = e.etcd.Revoke(context.WithoutCancel(ctx), s.Lease())
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, err
	}
	return func(ctx context.Context) error {
		defer e.giveBack(s)
		return mutex.Unlock(ctx)
	}, nil
}

func (e *etcdSubject) increment(ctx context.Context, key string) error {
	return e.incrementUnder(ctx, key, e.lock)
}

func (e *etcdSubject) close() {
	_ = e.etcd.Close() // the leases run out by themselves
	e.base.close()
}

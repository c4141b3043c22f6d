package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/doclock/doclock/internal/child"
	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// daemon is a server that the benchmark starts, with its data in a temporary
// directory.
type daemon struct {
	program, from string // from Debian's package
	arguments     func(address, dir string) ([]string, error)
	about         func(ctx context.Context, address string) (string, error)
}

// daemons write every command to disk before its answer, as MongoDB does with a
// majority write concern. Each is one server.
var daemons = map[string]daemon{
	"redis": {
		"redis-server", "redis-server",
		func(address, dir string) ([]string, error) {
			host, port, err := net.SplitHostPort(address)
			return []string{"--port", port, "--bind", host, "--dir", dir, "--save", "", "--appendonly", "yes", "--appendfsync", "always"}, err
		},
		func(ctx context.Context, address string) (string, error) {
			client := redis.NewClient(&redis.Options{Addr: address})
			defer func() { _ = client.Close() }()
			info, err := client.InfoMap(ctx, "server").Result()
			return fmt.Sprintf("redis %s, one server, appendonly yes, appendfsync always (each command is on disk before its answer)", info["Server"]["redis_version"]), err
		},
	},
	"etcd": {
		"etcd", "etcd-server",
		func(address, dir string) ([]string, error) {
			peers, err := freeAddress()
			url, peer := "http://"+address, "http://"+peers
			return []string{"--data-dir", dir + "/data", "--name", "one",
				"--listen-client-urls", url, "--advertise-client-urls", url, "--listen-peer-urls", peer,
				"--initial-advertise-peer-urls", peer, "--initial-cluster", "one=" + peer, "--log-level", "error"}, err
		},
		func(ctx context.Context, address string) (string, error) {
			client, err := clientv3.New(clientv3.Config{Endpoints: []string{address}, Logger: zap.NewNop()})
			if err != nil {
				return "", err
			}
			defer func() { _ = client.Close() }()
			status, err := client.Status(ctx, address)
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("etcd %s, a cluster of one (each write is on disk before its answer)", status.Version), nil
		},
	},
}

// start starts the server and waits until it answers. stop ends it and removes its
// data.
func (d daemon) start(ctx context.Context) (address, about string, stop func() error, err error) {
	program, err := exec.LookPath(d.program)
	if err != nil {
		return "", "", nil, fmt.Errorf("%w; Debian's package %s has it", err, d.from)
	}
	if address, err = freeAddress(); err != nil {
		return "", "", nil, err
	}
	dir, err := os.MkdirTemp("", "doclock-bench-"+d.program+"-")
	if err != nil {
		return "", "", nil, err
	}
	stop = func() error { return os.RemoveAll(dir) }
	arguments, err := d.arguments(address, dir)
	if err != nil {
		return "", "", nil, errors.Join(err, stop())
	}
	var out bytes.Buffer
	cmd := exec.Command(program, arguments...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &out
	child.Tie(cmd)
	if err := cmd.Start(); err != nil {
		return "", "", nil, errors.Join(err, stop())
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // the error only says that it was killed
		close(ended)
	}()
	stop = func() error {
		_ = cmd.Process.Kill()
		<-ended
		return os.RemoveAll(dir)
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	if err := listening(ctx, address, ended); err != nil {
		err = errors.Join(err, stop())
		return "", "", nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace(out.Bytes()))
	}
	if about, err = d.about(ctx, address); err != nil {
		return "", "", nil, errors.Join(err, stop())
	}
	return address, about, stop, nil
}

// freeAddress is an unused address of this machine.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// listening waits until a server accepts connections.
func listening(ctx context.Context, address string, ended <-chan struct{}) error {
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ended:
			return errors.New("it ended at once")
		case <-ctx.Done():
			return fmt.Errorf("it does not listen on %s: %w", address, err)
		}
	}
}

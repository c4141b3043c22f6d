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
)

// daemons are the servers that the benchmark starts, with their data in a temporary directory. Each is one server, and
// writes every command to disk before its answer, as MongoDB does with a majority write concern.
var daemons = map[string]struct {
	program, from string // from Debian's package
	arguments     func(host, port, dir string) []string
}{
	"redis": {"redis-server", "redis-server", func(host, port, dir string) []string {
		return []string{"--port", port, "--bind", host, "--dir", dir, "--save", "", "--appendonly", "yes", "--appendfsync", "always"}
	}},
	"etcd": {"etcd", "etcd-server", func(host, port, dir string) []string {
		url, peer := "http://"+host+":"+port, "http://"+host+":0" // nobody joins it
		return []string{"--data-dir", dir + "/data", "--name", "one",
			"--listen-client-urls", url, "--advertise-client-urls", url, "--listen-peer-urls", peer,
			"--initial-advertise-peer-urls", peer, "--initial-cluster", "one=" + peer, "--log-level", "error"}
	}},
}

// start starts a daemon and waits until it answers. stop ends it and removes its data.
func start(ctx context.Context, name string) (address, about string, stop func() error, err error) {
	d := daemons[name]
	program, err := exec.LookPath(d.program)
	if err != nil {
		return "", "", nil, fmt.Errorf("%w; Debian's package %s has it", err, d.from)
	}
	version, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return "", "", nil, err
	}
	version, _, _ = bytes.Cut(version, []byte("\n"))
	l, err := net.Listen("tcp", "127.0.0.1:0") // an unused address
	if err != nil {
		return "", "", nil, err
	}
	address = l.Addr().String()
	host, port, _ := net.SplitHostPort(address)
	dir, err := os.MkdirTemp("", "doclock-bench-"+d.program+"-")
	if err = errors.Join(err, l.Close()); err != nil {
		return "", "", nil, err
	}
	var out bytes.Buffer
	cmd := exec.Command(program, d.arguments(host, port, dir)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &out
	child.Tie(cmd)
	if err := cmd.Start(); err != nil {
		return "", "", nil, errors.Join(err, os.RemoveAll(dir))
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
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := listening(ctx, address, ended); err != nil {
		err = errors.Join(err, stop())
		return "", "", nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace(out.Bytes()))
	}
	return address, string(version) + "; one server, each command is on disk before its answer", stop, nil
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

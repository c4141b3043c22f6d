// Serve is a server in memory for other programs: an example, mongosh, the command line, or your own.
//
//	go run ./locktest/serve
//	go run ./locktest/serve -listen 127.0.0.1:27017 -topology members
//
// It prints one line for a shell, MONGODB_URI='mongodb://…', and serves until an interrupt. Nothing is kept. Anybody who
// reaches the address may read and write.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/doclock/doclock/locktest"
)

// topologies are the values of the flag.
var topologies = map[string][]locktest.Option{
	"standalone": nil,
	"members":    {locktest.ReplicaSet()},
	"sharded":    {locktest.Sharded()},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, log io.Writer) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	flags.SetOutput(log)
	address := flags.String("listen", "127.0.0.1:0", "host and port; the other members, or the second router, are at free ports")
	topology := flags.String("topology", "standalone", "standalone, members (a replica set of three), or sharded (two routers)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	opts, known := topologies[*topology]
	switch {
	case !known:
		return fmt.Errorf("-topology %q: it is standalone, members or sharded", *topology)
	case flags.NArg() > 0:
		return fmt.Errorf("%q: there are flags only", flags.Args())
	}
	server := locktest.Start(opts...)
	defer server.Close()
	uri, err := server.Listen(*address)
	if err != nil {
		return err
	}
	fmt.Fprintln(log, "locktest: a server in memory. It shows behaviour, proves nothing about MongoDB, and keeps nothing. Ctrl-C ends it.")
	fmt.Fprintf(out, "MONGODB_URI='%s'\n", uri)
	<-ctx.Done()
	return nil
}

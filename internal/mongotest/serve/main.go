// Serve keeps the server that the tests share, until Ctrl-C.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/doclock/doclock/internal/mongotest"
)

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(1)
	}
}

func serve() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	server, err := mongotest.Start(ctx, os.Stderr)
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, server.Description())
	fmt.Fprintln(os.Stderr, "Tests of this user find it by themselves. Whatever else needs it:")
	fmt.Printf("export MONGODB_URI='%s'\n", server.URI())
	fmt.Fprintln(os.Stderr, "It stays until Ctrl-C, and a little longer.")
	<-ctx.Done()
	return server.Close()
}

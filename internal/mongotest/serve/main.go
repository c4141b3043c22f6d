// Serve keeps the server that the tests share, until Ctrl-C. With -once it
// prints the server's description, and ends.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/doclock/doclock/internal/mongotest"
)

func main() {
	once := flag.Bool("once", false, "print the tests' server, and end")
	flag.Parse()
	if err := serve(*once); err != nil {
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(1)
	}
}

func serve(once bool) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	server, err := mongotest.Start(ctx, os.Stderr)
	if err != nil {
		return err
	}
	if once {
		fmt.Println(server.Description())
		return server.Close()
	}
	fmt.Fprintln(os.Stderr, server.Description())
	if os.Getenv("MONGODB_URI") != "" {
		return server.Close() // it stays by itself, and its URI may have a password
	}
	fmt.Fprintln(os.Stderr, "Tests of this user find it by themselves. Other programs need:")
	fmt.Printf("export MONGODB_URI='%s'\n", server.URI())
	fmt.Fprintln(os.Stderr, "It stays until Ctrl-C, and a little longer.")
	<-ctx.Done()
	return server.Close()
}

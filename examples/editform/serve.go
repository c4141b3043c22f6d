package main

import (
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
)

// inTurn sends each request to the next replica.
func inTurn(replicas []*url.URL) http.Handler {
	var requests atomic.Uint64
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(replicas[requests.Add(1)%uint64(len(replicas))])
	}}
}

// serve serves until ctx ends.
func serve(ctx context.Context, listen string, handler http.Handler) (address string, ended <-chan struct{}) {
	listener, err := net.Listen("tcp", listen)
	check(err)
	server := &http.Server{Handler: handler}
	over := make(chan struct{})
	go func() {
		defer close(over)
		<-ctx.Done()
		check(server.Shutdown(context.Background()))
	}()
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Fatal(err)
		}
	}()
	return listener.Addr().String(), over
}

package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"regexp"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func TestServe(t *testing.T) {
	for topology := range topologies {
		t.Run(topology, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			out, in := io.Pipe()
			var log bytes.Buffer
			ended := make(chan error, 1)
			go func() { ended <- run(ctx, []string{"-topology", topology}, in, &log) }()
			line, err := bufio.NewReader(out).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			said := regexp.MustCompile(`^MONGODB_URI='(mongodb://127\.0\.0\.1:\d+[^']*)'\n$`).FindStringSubmatch(line)
			if said == nil {
				t.Fatalf("it says %q", line)
			}
			client, err := mongo.Connect(options.Client().ApplyURI(said[1]))
			if err != nil {
				t.Fatal(err)
			}
			coll := client.Database("shop").Collection("orders")
			if _, err := coll.InsertOne(ctx, bson.M{"_id": "A-17"}); err != nil {
				t.Error(err)
			}
			if n, err := coll.CountDocuments(ctx, bson.M{"_id": "A-17"}); n != 1 {
				t.Errorf("%d documents, error %v", n, err)
			}
			if err := client.Disconnect(ctx); err != nil {
				t.Error(err)
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if !strings.Contains(log.String(), "keeps nothing") {
				t.Errorf("standard error has %q", log.String())
			}
		})
	}
}

func TestServeRefuses(t *testing.T) {
	for want, args := range map[string][]string{
		`-topology "ring": it is standalone, members or sharded`: {"-topology", "ring"},
		`["ring"]: there are flags only`:                         {"ring"},
		"locktest: listen":                                       {"-listen", "nowhere"},
	} {
		if err := run(t.Context(), args, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", args, err)
		}
	}
}

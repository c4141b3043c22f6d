// Record sends commands to a server and writes down what it answers, one line of JSON
// for each. The server is the one of DOCLOCK_TEST_URI. See docs/testing.md.
package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/doclock/doclock/locktest/internal/recorded"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// recorder sends and writes.
type recorder struct {
	db     *mongo.Database
	beside string // the directory of recordings that need no second line
	into   string
	kinds  []string
}

func main() {
	testdata := filepath.Join("locktest", "internal", "recorded", "testdata")
	r := recorder{}
	flag.StringVar(&r.into, "into", "", "the directory to write to, such as "+filepath.Join(testdata, "mongodb-8.0"))
	flag.StringVar(&r.beside, "beside", "", "a directory of recordings: write nothing that is the same there")
	from := flag.Int("from", 0, "the number of the first command of each kind")
	n := flag.Int("n", 300, "how many commands of each kind")
	kinds := flag.String("kinds", "operators,refused,library,"+strings.Join(recorded.Kinds, ","), "what to record")
	flag.Parse()
	r.kinds = strings.Split(*kinds, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := r.run(ctx, filepath.Join(testdata, "mongodb-5.0.7", "operators.jsonl"), *from, *n)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

// run records operators, of which a file has all, and commands.
func (r recorder) run(ctx context.Context, operators string, from, n int) (err error) {
	if r.into == "" {
		return fmt.Errorf("no directory given: use -into")
	}
	uri := os.Getenv("DOCLOCK_TEST_URI")
	if uri == "" {
		return errors.New("no server given: set DOCLOCK_TEST_URI")
	}
	client, err := mongo.Connect(options.Client().ApplyURI(uri).SetRetryWrites(false))
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, client.Disconnect(context.WithoutCancel(ctx))) }()
	r.db = client.Database("doclock_record_" + bson.NewObjectID().Hex()) // FerretDB may still answer from one that was dropped
	defer func() { err = cmp.Or(err, r.db.Drop(context.WithoutCancel(ctx))) }()
	if err := os.MkdirAll(r.into, 0o755); err != nil {
		return err
	}
	if err := r.db.CreateCollection(ctx, "c"); err != nil {
		return err
	}
	return cmp.Or(r.operators(ctx, operators), r.commands(ctx, from, n))
}

func (r recorder) operators(ctx context.Context, path string) error {
	if !slices.Contains(r.kinds, "operators") {
		return nil
	}
	all, err := recorded.ReadFile[recorded.Operator](path)
	if err != nil {
		return err
	}
	return r.write("operators.jsonl", func(write func(any) error) error {
		for _, o := range all {
			recording, err := o.Recording(recorded.Values(all))
			if err != nil {
				return err
			}
			outcome, err := recording.OnServer(ctx, r.db)
			if err != nil {
				return err
			}
			got, err := o.With(outcome)
			if err == nil && (r.beside == "" || !got.Equal(o)) {
				err = write(got)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (r recorder) commands(ctx context.Context, from, n int) error {
	var all []recorded.Recording
	var err error
	for _, kind := range r.kinds {
		var more []recorded.Recording
		switch kind {
		case "operators":
			continue
		case "refused":
			more, err = recorded.Refused()
		case "library":
			more, err = recorded.Library(n)
		default:
			more, err = drawn(kind, from, n)
		}
		if err != nil {
			return err
		}
		all = append(all, more...)
	}
	var known []recorded.Recording
	if r.beside != "" {
		if known, err = recorded.ReadFile[recorded.Recording](filepath.Join(r.beside, "commands.jsonl")); err != nil {
			return err
		}
	}
	return r.write("commands.jsonl", func(write func(any) error) error {
		for _, recording := range all {
			recording.Outcome, err = recording.OnServer(ctx, r.db)
			if errors.Is(err, recorded.ErrBefore) {
				fmt.Fprintln(os.Stderr, "record: left out:", err)
				continue
			}
			if err != nil {
				return err
			}
			if slices.ContainsFunc(known, func(k recorded.Recording) bool {
				return k.Kind == recording.Kind && k.N == recording.N && k.Differs(recording.Outcome) == ""
			}) {
				continue
			}
			if err := write(recording); err != nil {
				return err
			}
		}
		return nil
	})
}

func drawn(kind string, from, n int) (all []recorded.Recording, err error) {
	for i := from; i < from+n; i++ {
		one, err := recorded.Draw(kind, i)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// write makes a file of lines.
func (r recorder) write(name string, lines func(write func(any) error) error) (err error) {
	f, err := os.Create(filepath.Join(r.into, name))
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, f.Close()) }()
	out := bufio.NewWriter(f)
	if err := lines(func(line any) error { return recorded.Write(out, line) }); err != nil {
		return err
	}
	return out.Flush()
}

// Record sends the commands of recordings to a server, and writes down what it answers, one
// line of JSON for each. The server is the one of DOCLOCK_TEST_URI. See docs/testing.md.
package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/doclock/doclock/locktest/internal/recorded"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

const ofOperators = "operators.jsonl"

// recorder sends and writes.
type recorder struct {
	db     *mongo.Database
	from   []string // the files with the commands; each is written anew
	beside string   // the directory of recordings that need no second line
	into   string
}

func main() {
	testdata := filepath.Join("locktest", "internal", "recorded", "testdata")
	mongoDB, ferretDB := filepath.Join(testdata, "mongodb-5.0.7"), filepath.Join(testdata, "ferretdb-2.7.0")
	r := recorder{from: []string{filepath.Join(mongoDB, ofOperators), filepath.Join(mongoDB, "commands.jsonl"), filepath.Join(ferretDB, "others.jsonl")}}
	flag.StringVar(&r.into, "into", "", "the directory to write to, such as "+filepath.Join(testdata, "mongodb-8.0"))
	flag.StringVar(&r.beside, "beside", "", "a directory of recordings: write nothing that is the same there")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := r.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

// run records the operators and commands of the files.
func (r recorder) run(ctx context.Context) (err error) {
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
	for _, path := range r.from {
		record := r.commands
		if filepath.Base(path) == ofOperators {
			record = r.operators
		}
		if err := record(ctx, path); err != nil {
			return err
		}
	}
	return nil
}

func (r recorder) operators(ctx context.Context, path string) error {
	all, err := recorded.ReadFile[recorded.Operator](path)
	if err != nil {
		return err
	}
	values := recorded.Values(all)
	return r.write(path, func(write func(any) error) error {
		for _, o := range all {
			got, err := o.Now(values, func(recording recorded.Recording) (recorded.Outcome, error) {
				return recording.OnServer(ctx, r.db)
			})
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

func (r recorder) commands(ctx context.Context, path string) error {
	all, err := recorded.ReadFile[recorded.Recording](path)
	if err != nil {
		return err
	}
	var known []recorded.Recording
	if r.beside != "" {
		known, err = recorded.ReadFile[recorded.Recording](filepath.Join(r.beside, filepath.Base(path)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return r.write(path, func(write func(any) error) error {
		for _, recording := range all {
			if recording.Kind == "library" { // the library may send something else now
				if recording, err = recorded.Library(recording.N); err != nil {
					return err
				}
			}
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

// write makes a file of lines, with the name of the one that they are read from.
func (r recorder) write(path string, lines func(write func(any) error) error) (err error) {
	f, err := os.Create(filepath.Join(r.into, filepath.Base(path)))
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

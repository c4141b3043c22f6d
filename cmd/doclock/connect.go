package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/doclock/doclock/admin"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// defaultCollection is where "doclock run NAME" makes its locks.
const defaultCollection = "doclock.locks"

// full is the collection's name with its database's.
func (c *cli) full() string {
	return cmp.Or(c.collection, os.Getenv("DOCLOCK_COLLECTION"), defaultCollection)
}

// connect opens the collection. Nothing is sent yet. The caller calls close.
func (c *cli) connect() (coll *mongo.Collection, close func(), err error) {
	db, name, _ := strings.Cut(c.full(), ".")
	if db == "" || name == "" {
		return nil, nil, usage("the collection is %q; give DB.COLLECTION, as in -c shop.orders", c.full())
	}
	if c.timeout < shortestTimeout {
		return nil, nil, usage("--timeout is %v; give at least %v", c.timeout, shortestTimeout)
	}
	client, err := c.client()
	if err != nil {
		return nil, nil, err
	}
	return client.Database(db).Collection(name), func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = client.Disconnect(ctx) // the process ends
	}, nil
}

// adminOptions are those that all of admin's functions have.
func (c *cli) adminOptions(more ...admin.Option) []admin.Option {
	opts := []admin.Option{admin.Field(c.field)}
	if len(c.shardKey) > 0 {
		opts = append(opts, admin.ShardKey(c.shardKey...))
	}
	return append(opts, more...)
}

// patience is how long doclock waits for a server that doesn't answer, unless --timeout says otherwise.
var patience = 10 * time.Second

const shortestTimeout = 100 * time.Millisecond

// errSilent: the server doesn't answer any more.
var errSilent = errors.New("the server has not answered")

// onServer opens the collection and does the work with it, while the server
// answers.
func (c *cli) onServer(ctx context.Context, work func(context.Context, *mongo.Collection) error) error {
	coll, disconnect, err := c.connect()
	if err != nil {
		return err
	}
	defer disconnect()
	return c.answered(ctx, coll, work)
}

// answered does the work under a context that ends when the server answers
// nothing for --timeout. A command may take any time, as a list of a large
// collection does, and so may the reader of the output. So a ping asks, beside the
// work, whether the server is there.
func (c *cli) answered(ctx context.Context, coll *mongo.Collection, work func(context.Context, *mongo.Collection) error) error {
	ctx, cancel := context.WithCancel(ctx)
	asked := make(chan bool, 1)
	go func() {
		asked <- c.silence(ctx, coll.Database().Client())
		cancel()
	}()
	err := work(ctx, coll)
	cancel()
	if silent := <-asked; silent && err != nil {
		return fmt.Errorf("%w for %v: %w", errSilent, c.timeout, err)
	}
	return err
}

// silence returns at the end of ctx, or if the server has not answered for
// --timeout, and reports whether that has happened. It asks twice: this process
// may have been stopped while it asked.
func (c *cli) silence(ctx context.Context, client *mongo.Client) bool {
	third := c.timeout / 3
	for asked := 0; asked < 2; {
		if asked == 0 && !passed(ctx, third) {
			return false
		}
		pinged, cancel := context.WithTimeout(ctx, third)
		err := client.Ping(pinged, nil)
		cancel()
		switch {
		case ctx.Err() != nil:
			return false
		case mongo.IsTimeout(err) && !unselected(err):
			asked++
		default: // an answer, or an error that the work meets by itself
			asked = 0
		}
	}
	return true
}

// unselected reports whether the driver found no server to send to. The type of its
// error is in the driver's x/, which may change. So its text tells.
func unselected(err error) bool {
	return err != nil && strings.Contains(err.Error(), "server selection error")
}

// passed waits, and reports whether the time has passed before the end of ctx.
func passed(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// errNoServer: nothing says where the server is.
var errNoServer = errors.New("no server is named")

// serverURI finds the URI. No error has a part of it, or of what a file has.
func (c *cli) serverURI() (string, error) {
	switch {
	case c.uri != "" && c.uriFile != "":
		return "", usage("--uri and --uri-file are both given; give one")
	case c.uri != "":
		return strings.TrimSpace(c.uri), nil
	case c.uriFile != "":
		text, err := os.ReadFile(c.uriFile)
		if err != nil {
			var path *fs.PathError
			if errors.As(err, &path) { // its path may be the URI itself
				err = path.Err
			}
			return "", usage("the file of --uri-file can't be read: %v", err)
		}
		uri := strings.TrimSpace(string(text))
		if uri == "" || strings.ContainsAny(uri, "\n\r") {
			return "", usage("the file of --uri-file doesn't have one line, a URI")
		}
		return uri, nil
	}
	uri := strings.TrimSpace(cmp.Or(os.Getenv("DOCLOCK_URI"), os.Getenv("MONGODB_URI")))
	if uri == "" {
		return "", &ending{code: exitUsage, err: errNoServer}
	}
	return uri, nil
}

// client makes a client of the server's URI, with more options.
func (c *cli) client(more ...*options.ClientOptions) (*mongo.Client, error) {
	uri, err := c.serverURI()
	if err != nil {
		return nil, err
	}
	opts := options.Client().ApplyURI(uri)
	err = opts.Validate()
	unread := err != nil || slices.ContainsFunc(opts.Hosts, func(host string) bool { return strings.Contains(host, "@") })
	if c.uri != "" && (unread || hasPassword(opts)) {
		return nil, usage("--uri has a password, which ps shows to everybody and a shell keeps in its history, or it can't be read; set MONGODB_URI, or write it to a file for --uri-file")
	}
	if unread {
		return nil, unusable(uri, err)
	}
	if opts.ServerSelectionTimeout == nil || c.timeout != patience {
		opts.SetServerSelectionTimeout(c.timeout)
	}
	if opts.ConnectTimeout == nil {
		opts.SetConnectTimeout(c.timeout)
	}
	if opts.LocalThreshold == nil {
		opts.SetLocalThreshold(time.Minute) // check asks those that are far away, too
	}
	if opts.MaxPoolSize != nil && *opts.MaxPoolSize == 1 {
		opts.SetMaxPoolSize(2) // the second one for the pings of answered
	}
	if opts.AppName == nil {
		opts.SetAppName("doclock")
	}
	client, err := mongo.Connect(append([]*options.ClientOptions{opts}, more...)...)
	if err != nil {
		return nil, unusable(uri, err)
	}
	return client, nil
}

// hasPassword reports whether a URI that can be read has something that nobody may
// see. A property may be a token.
func hasPassword(opts *options.ClientOptions) bool {
	return opts.Auth != nil && (opts.Auth.PasswordSet || len(opts.Auth.AuthMechanismProperties) > 0) ||
		strings.Contains(strings.ToLower(opts.GetURI()), "password")
}

// unusable is the error of a URI that can't be used. A password can be anywhere in
// such a URI, and in what the driver says of it. So nothing of both is in the error.
func unusable(uri string, err error) error {
	why := "a character in it has to be escaped, or it has no host. In a password % is %25, / %2F, : %3A, @ %40"
	before, _, _ := strings.Cut(uri, "?")
	switch {
	case !strings.HasPrefix(uri, "mongodb://") && !strings.HasPrefix(uri, "mongodb+srv://"):
		why = "it doesn't begin with mongodb:// or mongodb+srv://"
	case errors.As(err, new(*net.DNSError)):
		why = "DNS has no SRV record of its host"
	case before != uri && options.Client().ApplyURI(before).Validate() == nil:
		why = "an option after its ? can't be used"
	}
	return usage("the server's URI can't be used: %s", why)
}

var mongoURI = regexp.MustCompile(`(?is)(mongo[a-z+]*://)\S.*`)

// withoutURI is an error's text without a server's URI, which may have been given in
// the place of another argument.
func withoutURI(text string) string { return mongoURI.ReplaceAllString(text, "$1…") }

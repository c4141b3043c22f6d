package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock/internal/oneline"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

var spoilt = flag.Int("spoilt", 2000, "how many spoilt URIs are drawn")

// said is all that is printed for a spoilt URI. HOST is one of a URI that can be read.
var said = []*regexp.Regexp{
	regexp.MustCompile(`^doclock: the server's URI can't be used: a character in it has to be escaped, .*\n$`),
	regexp.MustCompile(`^doclock: the server's URI can't be used: it doesn't begin with mongodb:// or mongodb\+srv://\n$`),
	regexp.MustCompile(`^doclock: the server's URI can't be used: DNS has no SRV record of its host\n$`),
	regexp.MustCompile(`^doclock: the server's URI can't be used: an option after its \? can't be used\n$`),
	regexp.MustCompile(`^doclock: the file of --uri-file doesn't have one line, a URI\n$`),
	regexp.MustCompile(`^doclock: --uri has a password, which ps shows .*\n$`),
	regexp.MustCompile(`^doclock: server selection error: [a-z ]+, current topology: \{ Type: \w+, Servers: \[(\{ Addr: HOST[:0-9]*, Type: \w+(, Last error: [^,]*no network)? \}, )+\] \}\n  No server answered.*\n$`),
	regexp.MustCompile(`^doclock: (connection\(\) error occurred during connection handshake: failed to connect to HOST[:0-9]*: no network|` +
		`timed out while checking out a connection from connection pool: [a-zA-Z0-9µ ,:.;]*)\n  No server answered.*\n$`),
}

// The test spoils a URI at any place. doclock prints nothing of it but the host, and
// that only if the URI can be read. The script "secrets" has what each subcommand prints.
func TestSpoiltURIs(t *testing.T) {
	defer func(usual *net.Resolver) { net.DefaultResolver = usual }(net.DefaultResolver)
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: noNetwork{}.DialContext}
	seed := rand.Uint64()
	draw := rand.New(rand.NewPCG(seed, 0))
	file := filepath.Join(t.TempDir(), "uri")
	printed := make([]int, len(said))
	for n := range *spoilt {
		uri := spoiltURI(draw)
		if n == 0 {
			uri = "mongodb://ann@[\n" // once a host with a line feed
		}
		must(t, os.WriteFile(file, []byte(uri), 0o600))
		for _, c := range []*cli{{uriFile: file}, {uri: uri}} {
			text := printedFor(t, c, uri)
			at := slices.IndexFunc(said, func(r *regexp.Regexp) bool { return r.MatchString(text) })
			if at < 0 || strings.Contains(strings.ToLower(text), secret[:4]) {
				t.Fatalf("seed %d: for %q it says %q", seed, uri, text)
			}
			printed[at]++
		}
	}
	for i, n := range printed {
		t.Logf("%6d times %s", n, said[i])
		if n == 0 && *spoilt >= 2000 {
			t.Errorf("never said: %s", said[i])
		}
	}
}

// printedFor is what is printed if there is no network, with HOST for the URI's hosts.
func printedFor(t *testing.T, c *cli, uri string) string {
	t.Helper()
	var out bytes.Buffer
	c.err, c.timeout = &out, patience
	client, err := c.client(options.Client().SetDialer(noNetwork{}).SetServerSelectionTimeout(time.Millisecond))
	if err == nil {
		err = errors.Join(client.Ping(t.Context(), nil), client.Disconnect(t.Context()))
	}
	if err == nil {
		t.Fatalf("a server answers at %q", uri)
	}
	c.report(err, exitCodeOf(err, nil))
	text := out.String()
	var hosts []string
	for _, host := range options.Client().ApplyURI(strings.TrimSpace(uri)).Hosts {
		hosts = append(hosts, regexp.QuoteMeta(strings.ToValidUTF8(host, "\ufffd")), regexp.QuoteMeta(oneline.Text(host)))
	}
	slices.SortFunc(hosts, func(a, b string) int { return len(b) - len(a) })
	if len(hosts) > 0 {
		addr := regexp.MustCompile(`(?i)(Addr: |connect to )(` + strings.Join(hosts, "|") + ")")
		text = addr.ReplaceAllString(text, "${1}HOST")
	}
	return text
}

// noNetwork is a dialer without a network.
type noNetwork struct{}

func (noNetwork) DialContext(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("no network")
}

const secret = "s3kr3t"

// spoiltURI draws a URI that has the secret somewhere, and spoils it.
func spoiltURI(draw *rand.Rand) string {
	one := func(of ...string) string { return of[draw.IntN(len(of))] }
	password := one(secret, secret+"%40x", "s3kr%333t", secret+"/", secret+"@y", `"`+secret, secret+":1")
	uri := one("mongodb://", "mongodb://", "mongodb+srv://") + one("ann:"+password+"@", "ann:"+password+"@", secret+"@", "ann@", "") +
		one("h.example", "h.example:27018", "h.example,g.example:1", "[::1]:27017", "%2Ftmp%2Fm.sock") + one("", "/", "/shop")
	for n := range draw.IntN(4) {
		uri += []string{"?", "&", "&"}[min(n, 1)] + one("replicaSet=r", "tls=true", "tls="+secret, "authSource="+secret, "authMechanism=MONGODB-AWS", "loadBalanced=true",
			"authMechanismProperties=AWS_SESSION_TOKEN:"+password, "authMechanismProperties=TOKE:"+secret, "tlsCertificateKeyFilePassword="+secret,
			"tlsCAFile="+secret, "directConnection=true", "appName="+secret, "w="+secret, secret+"=1", "maxPoolSize="+secret)
	}
	for n := draw.IntN(4); n > 0 && len(uri) > 1; n-- {
		at := draw.IntN(len(uri))
		switch draw.IntN(5) {
		case 0: // leave one byte out
			uri = uri[:at] + uri[at+1:]
		case 1: // put one in
			uri = uri[:at] + one("@", ":", "/", "?", "%", "&", "=", ",", "#", "[", "]", "+", " ", `"`, "\\", "\n", "\x1b", "\xff", "ä", "%zz", "%40", "%3A", "%2F") + uri[at:]
		case 2: // escape one
			uri = uri[:at] + fmt.Sprintf("%%%02X", uri[at]) + uri[at+1:]
		case 3: // leave all behind it out, or before
			uri = one(uri[:at+1], uri[at:])
		case 4: // put a piece of it elsewhere
			to := draw.IntN(len(uri))
			uri = uri[:to] + uri[at:min(at+8, len(uri))] + uri[to:]
		}
	}
	return uri
}

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// No password is ever printed, whatever is wrong with the URI.
func TestNoPasswordIsPrinted(t *testing.T) {
	t.Parallel()
	p := &place{T: t}
	for _, uri := range []string{
		"mongodb://ann:geheim@127.0.0.1:1/?serverSelectionTimeoutMS=100",
		"mongodb://ann:geheim@127.0.0.1:1,127.0.0.1:2/?serverSelectionTimeoutMS=100",
		"mongodb://ann:ge/heim@127.0.0.1:1",
		"mongodb://ann:ge@heim@127.0.0.1:1",
		"mongodb://ann:geheim%zz@127.0.0.1:1",
		"mongodb://ann:%67eheim@127.0.0.1:notaport",
		"mongodb://ann:geheim@127.0.0.1:1/?authMechanism=NONE",
		"mongo://ann:geheim@127.0.0.1",
		"mongodb://ann:geheim@/",
		"mongodb://127.0.0.1:1/?tls=true&tlsCertificateKeyFile=/no/such&tlsCertificateKeyFilePassword=geheim",
		"mongodb://127.0.0.1:1/?authMechanismProperties=AWS_SESSION_TOKEN%3Ageheim%zz",
		"mongodb://ann:ge\"heim@127.0.0.1:1/?tls=ge\"heim",
		"mongodb://127.0.0.1:1/?authMechanism=MONGODB-AWS&authMechanismProperties=AWS_SESSION_TOKEN:geheim&serverSelectionTimeoutMS=100",
	} {
		p.uri = uri
		for _, args := range [][]string{{"ls"}, {"ls", "--json"}, {"check"}, {"run", "x", "-v", "--wait", "100ms", "--", "true"}, {"ls", "--uri", uri}, {"watch", "--rounds", "1"}} {
			code, stdout, stderr := p.do(args...)
			if said := stdout + stderr; code == 0 && args[0] != "watch" || strings.Contains(said, "heim") || said == "" {
				t.Errorf("%q with %s ended with %d and said %q", args, uri, code, said)
			}
		}
		c := &cli{uri: uri}
		if _, err := c.serverURI(); err == nil || !strings.Contains(err.Error(), "ps shows") {
			t.Errorf("--uri %s: %v", uri, err)
		}
		for _, text := range []string{uri, fmt.Sprintf("%q", uri), unescaped(uri)} { // whatever the driver quotes
			if said := c.redacted("can't use " + text); strings.Contains(said, "heim") || !strings.Contains(said, "can't use") {
				t.Errorf("%q becomes %q", text, said)
			}
		}
	}
}

// A short password isn't shown by the holes that it leaves in a message.
func TestAShortPasswordLeavesNoHoles(t *testing.T) {
	t.Parallel()
	p := &place{T: t, uri: "mongodb://ann:e@127.0.0.1:99999/"}
	p.want(exitUsage, []string{"the server's URI can't be used", "%40"}, "ls")
}

// The URI comes from a flag without a password, a file, or the environment.
func TestWhereTheURIComesFrom(t *testing.T) {
	p := alone(t)
	uri := p.uri
	p.uri = ""
	p.want(exitUsage, []string{"no server is named", "MONGODB_URI"}, "ls")
	p.want(0, nil, "ls", "--uri", uri)
	file := filepath.Join(t.TempDir(), "uri")
	p.want(exitUsage, []string{"can't be read"}, "ls", "--uri-file", file)
	for text, code := range map[string]int{uri: 0, " " + uri + "\n": 0, "": exitUsage, "a\nb": exitUsage} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		p.want(code, nil, "ls", "--uri-file", file)
	}
	p.want(exitUsage, []string{"give one"}, "ls", "--uri", uri, "--uri-file", file)
	cmd := p.command("ls")
	cmd.Env = append(cmd.Env, "MONGODB_URI=mongodb://nowhere.invalid", "DOCLOCK_URI="+uri)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("DOCLOCK_URI: %v: %s", err, out)
	}
}

// An error says what was wrong and what to do; as JSON, too.
func TestErrors(t *testing.T) {
	t.Parallel()
	p := &place{T: t}
	p.want(exitUsage, []string{"unknown command", "--help"}, "lss")
	p.want(exitUsage, []string{"unknown flag", "--help"}, "ls", "--fast")
	p.want(exitUsage, []string{"none of the others can be"}, "ls", "--live", "--expired")
	p.want(exitUsage, []string{"invalid argument"}, "ls", "--older", "long")
	p.want(exitUsage, []string{"give DB.COLLECTION"}, "ls", "-c", "shop")
	p.uri = "mongodb://127.0.0.1:1"
	p.want(exitUsage, []string{"OlderThan", "or more"}, "ls", "--older", "-1s")
	_, _, stderr := p.do("ls", "--json", "-c", "shop")
	if !strings.HasPrefix(stderr, `{"error":"`) || !strings.Contains(stderr, `"exit":2}`) {
		t.Errorf("as JSON: %s", stderr)
	}
}

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// No password is ever printed, whatever is wrong with the URI.
func TestNoPasswordIsPrinted(t *testing.T) {
	t.Parallel()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
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
		for _, args := range [][]string{
			{"ls"}, {"ls", "--json"}, {"check"}, {"run", "x", "-v", "--wait", "100ms", "--", "true"}, {"ls", "--uri", uri}, {"watch", "--rounds", "1"},
		} {
			cmd := exec.Cmd{Path: own, Args: append([]string{"doclock"}, args...), Env: append(os.Environ(), "DOCLOCK_URI="+uri)}
			said, err := cmd.CombinedOutput()
			if err == nil && args[0] != "watch" || strings.Contains(string(said), "heim") || len(said) == 0 {
				t.Errorf("%q with %s: %v, and it said %q", args, uri, err, said)
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

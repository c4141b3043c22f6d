//go:build unix

package mongotest

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// If there is neither a mongod nor a container engine, stand-ins replace them:
// enough of a mongod to become a replica set of one member, and enough of a
// container client to run it. They show that we start, find, kill, restart and
// remove these servers by the known rules, not that the rules are right.

// Under the name mongod, this test binary is a stand-in for one.
func init() {
	if filepath.Base(os.Args[0]) != "mongod" {
		return
	}
	if err := (&standIn{}).run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type standIn struct {
	data string
	set  string // the replica set, once initiated
}

func (s *standIn) run(args []string) error {
	flags := flag.NewFlagSet("mongod", flag.ContinueOnError)
	set, port := flags.String("replSet", "", ""), flags.String("port", "", "")
	flags.StringVar(&s.data, "dbpath", os.Getenv("STANDIN_DATA"), "")
	for _, ignored := range []string{"wiredTigerCacheSizeGB", "oplogSize", "setParameter", "bind_ip"} {
		flags.String(ignored, "", "")
	}
	flags.Bool("nounixsocket", false, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(s.data, "initiated")); err == nil {
		s.set = *set
	}
	listener, err := listen(*port)
	if err != nil {
		return err
	}
	fmt.Println("Waiting for connections")
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer func() { _ = conn.Close() }()
			for s.answer(conn, *set, *port) == nil {
				continue
			}
		}()
	}
}

// listen waits while the port is in use: a process that is being forked has the sockets
// of its parent, such as freePort's, until it executes its program.
func listen(port string) (net.Listener, error) {
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		listener, err := net.Listen("tcp", "127.0.0.1:"+port)
		if !errors.Is(err, syscall.EADDRINUSE) || time.Since(began) > startLimit/2 {
			return listener, err
		}
	}
}

// answer reads one command and answers it.
func (s *standIn) answer(conn io.ReadWriter, set, port string) error {
	const opMsg, opQuery, opReply = 2013, 2004, 1
	header := make([]byte, 16)
	if _, err := io.ReadFull(conn, header); err != nil {
		return err
	}
	body := make([]byte, binary.LittleEndian.Uint32(header)-16)
	if _, err := io.ReadFull(conn, body); err != nil {
		return err
	}
	kind, skip, reply := uint32(opMsg), 5, append([]byte{0, 0, 0, 0}, 0)
	if binary.LittleEndian.Uint32(header[12:]) == opQuery { // the driver's first hello
		kind, skip, reply = opReply, 4+len("admin.$cmd")+1+8, make([]byte, 20)
		reply[16] = 1
	}
	document, err := bson.Marshal(s.reply(bson.Raw(body[skip:]), set, port))
	if err != nil {
		return err
	}
	reply = append(reply, document...)
	head := binary.LittleEndian.AppendUint32(nil, uint32(16+len(reply)))
	head = binary.LittleEndian.AppendUint32(head, 1)
	head = append(head, header[4:8]...)
	head = binary.LittleEndian.AppendUint32(head, kind)
	_, err = conn.Write(append(head, reply...))
	return err
}

func (s *standIn) reply(command bson.Raw, set, port string) any {
	elements, err := command.Elements()
	if err != nil || len(elements) == 0 {
		return bson.M{"ok": 0, "errmsg": "not understood"}
	}
	switch name := elements[0].Key(); name {
	case "hello", "isMaster", "ismaster":
		hello := bson.M{"ok": 1, "minWireVersion": 0, "maxWireVersion": 21, "maxBsonObjectSize": 16 << 20,
			"maxMessageSizeBytes": 48000000, "maxWriteBatchSize": 100000, "helloOk": true, "isWritablePrimary": s.set != "", "ismaster": s.set != ""}
		if s.set != "" {
			address := "127.0.0.1:" + port
			hello["setName"], hello["hosts"], hello["me"], hello["primary"] = s.set, bson.A{address}, address, address
		}
		return hello
	case "replSetInitiate":
		if s.set != "" {
			return bson.M{"ok": 0, "code": 23, "codeName": "AlreadyInitialized", "errmsg": "already initialized"}
		}
		if err := os.WriteFile(filepath.Join(s.data, "initiated"), nil, 0o600); err != nil {
			return bson.M{"ok": 0, "errmsg": err.Error()}
		}
		s.set = set
		return bson.M{"ok": 1}
	case "buildInfo":
		return bson.M{"ok": 1, "version": "8.0.0-stand-in"}
	default:
		return bson.M{"ok": 1}
	}
}

// dockerStandIn runs the given programs as processes of this machine, with its own
// directory's mongod. Its data is there, too.
const dockerStandIn = `cd "$(dirname "$0")" && export PATH="$PWD:$PATH" STANDIN_DATA="$PWD" || exit
for name; do :; done # the last argument, in most commands
boot() { name=$1; shift; echo $$ >"$name.pid"; printf '%s\n' "$@" >"$name.args"; exec sh "$@"; }
case $1 in
run)
	shift
	while case $1 in --name=*) name=${1#--name=};; --*) ;; *) false;; esac; do shift; done
	[ "$1" = "$(cat inspected)" ] && shift || exit
	boot "$name" "$@" ;;
start)
	# the arguments again, one a line, the first two being -c and the program
	set -- ; while IFS= read -r arg; do set -- "$@" "$arg"; done <"$name.args"
	boot "$name" "$@" ;;
kill) kill -9 "$(cat "$name.pid")" ;;
rm) kill -9 "$(cat "$name.pid")" 2>/dev/null; rm "$name.pid" ;;
image) echo "$3" >inspected ;;
ps|container) ;;
*) exit 1 ;;
esac`

// standIns is a directory with the stand-ins.
func standIns(t *testing.T) (bin string) {
	t.Helper()
	bin = t.TempDir()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(program, filepath.Join(bin, "mongod")); err != nil {
		t.Fatal(err)
	}
	script(t, filepath.Join(bin, "docker"), dockerStandIn)
	return bin
}

func TestStandIns(t *testing.T) {
	t.Parallel()
	for origin, program := range map[string]func(bin string) way{
		"/mongod, on PATH": func(bin string) way { return mongodWay(bin + "/mongod") },
		"mongo:8 in ":      func(bin string) way { return containerWay(bin+"/docker", defaultImage) },
		"mongo:4.4 in ":    func(bin string) way { return containerWay(bin+"/docker", "mongo:4.4") },
	} {
		t.Run(origin, func(t *testing.T) {
			t.Parallel()
			w := program(standIns(t))
			kept := cache{dir: t.TempDir()}
			if err := w.prepare(t.Context(), kept, newProgress(nil)); err != nil {
				t.Fatal(err)
			}
			srv, err := w.start(t.Context(), kept)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(srv.origin(), origin) {
				t.Errorf("it is %s", srv.origin())
			}
			lifeOf(t, srv)
			if left, err := filepath.Glob(kept.path("runs/*")); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// lifeOf takes a server through the tests' operations.
func lifeOf(t *testing.T, srv server) {
	t.Helper()
	what, err := probe(t.Context(), srv.uri(), startLimit)
	if err != nil || !strings.Contains(what, "8.0.0-stand-in, replica set") {
		t.Errorf("it is %q, %v", what, err)
	}
	for _, step := range []struct {
		name    string
		do      func() error
		answers bool
	}{
		{"kill", srv.kill, false},
		{"kill again", srv.kill, false},
		{"launch", func() error { return srv.launch(context.WithoutCancel(t.Context())) }, true},
		{"remove", srv.remove, false},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		switch {
		case step.answers && !answers(t, srv.uri()):
			t.Errorf("after %s, it does not answer", step.name)
		case !step.answers && !silent(t, srv.uri()):
			t.Errorf("after %s, it answers", step.name)
		}
	}
}

func shell(script string) *exec.Cmd { return exec.Command("/bin/sh", "-c", script) }

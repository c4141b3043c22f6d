package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// running is a process of this machine, in Linux's description.
type running struct {
	id, parent int
	name       string
}

// serverCPU is the processor time that the MongoDB server has used so far. It
// is unknown if the server's processes can't be seen, on another machine or
// another system. The kernel's own count has nanoseconds; that of
// /proc/<pid>/stat has hundredths of a second, too coarse for a few commands.
func (s *servers) serverCPU() (used time.Duration, known bool) {
	for _, p := range serving(processes(), s.port()) {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p.id))
		for _, thread := range threads {
			var ns int64
			if text, err := os.ReadFile(thread); err == nil {
				if _, err := fmt.Sscan(string(text), &ns); err == nil {
					used, known = used+time.Duration(ns), true
				}
			}
		}
	}
	return used, known
}

// port is the port of the MongoDB server.
func (s *servers) port() string {
	for _, host := range options.Client().ApplyURI(s.MongoURI).Hosts {
		if _, port, err := net.SplitHostPort(host); err == nil {
			return port
		}
	}
	return "27017"
}

// serving are the processes of the server on a port: mongod, or FerretDB and
// the PostgreSQL that was started beside it, with its backends.
func serving(all []running, port string) (found []running) {
	for _, p := range all {
		if p.name == "mongod" || p.name == "ferretdb" {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.id))
			if strings.Contains(string(line), ":"+port) || strings.Contains(string(line), "port\x00"+port) {
				found = append(found, p)
			}
		}
	}
	if len(found) == 0 || found[0].name == "mongod" {
		return found
	}
	postgres := func(parent int) {
		for _, p := range all {
			if p.name == "postgres" && p.parent == parent {
				found = append(found, p)
			}
		}
	}
	postgres(found[0].parent)
	for _, beside := range slices.Clone(found[1:]) {
		postgres(beside.id)
	}
	return found
}

// processes are the visible processes; none without /proc.
func processes() (all []running) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// 4711 (name, with anything in it) S parent …
		id, rest, _ := strings.Cut(string(text), " (")
		end := strings.LastIndex(rest, ") ")
		if end < 0 {
			continue
		}
		fields := strings.Fields(rest[end+2:])
		if len(fields) < 2 {
			continue
		}
		p := running{name: rest[:end]}
		p.id, _ = strconv.Atoi(id)
		p.parent, _ = strconv.Atoi(fields[1])
		all = append(all, p)
	}
	return all
}

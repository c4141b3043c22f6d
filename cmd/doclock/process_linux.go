package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// killWithParent has the kernel kill the command when this process ends in any
// way. The server keeps the entry for longer than that takes.
func killWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// members are the processes of the command that have not ended. With a group of
// its own they are the group. At a terminal, where the group has others too, they
// are the command, its descendants, and those that have its mark in their
// environment, as the descendants of a process that has ended have. A process
// that has made a session of its own has left, as a daemon does.
func (p *process) members() []int {
	all, session := processes(), sessionOf(os.Getpid())
	var members []int
	for _, q := range all {
		switch {
		case p.own && q.group == p.cmd.Process.Pid,
			!p.own && q.pid == p.cmd.Process.Pid && q.parent == os.Getpid(),
			!p.own && q.session == session && q.marked(p.mark):
			members = append(members, q.pid)
		}
	}
	for i := 0; i < len(members) && !p.own; i++ {
		for _, q := range all {
			if q.parent == members[i] && q.session == session && !slices.Contains(members, q.pid) {
				members = append(members, q.pid)
			}
		}
	}
	return members
}

// stat is what Linux says of a process.
type stat struct{ pid, parent, group, session int }

// processes are all processes that have not ended.
func processes() []stat {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	var all []stat
	for _, file := range files {
		if s, ok := readStat(file); ok {
			all = append(all, s)
		}
	}
	return all
}

// readStat reads a file such as /proc/7/stat: "7 (name) S 1 7 7 …".
func readStat(file string) (s stat, running bool) {
	text, err := os.ReadFile(file)
	end := bytes.LastIndexByte(text, ')') // a name may have any character
	if err != nil || end < 0 {
		return stat{}, false
	}
	f := strings.Fields(string(text[end+1:]))
	if len(f) < 4 || f[0] == "Z" || f[0] == "X" {
		return stat{}, false
	}
	s.pid, _ = strconv.Atoi(filepath.Base(filepath.Dir(file)))
	s.parent, _ = strconv.Atoi(f[1])
	s.group, _ = strconv.Atoi(f[2])
	s.session, _ = strconv.Atoi(f[3])
	return s, true
}

// marked reports whether a process was started with this in its environment.
// That of another user can't be read.
func (s stat) marked(mark string) bool {
	env, _ := os.ReadFile("/proc/" + strconv.Itoa(s.pid) + "/environ")
	return slices.Contains(strings.Split(string(env), "\x00"), mark)
}

// sessionOf is a process's session.
func sessionOf(pid int) int {
	s, _ := readStat("/proc/" + strconv.Itoa(pid) + "/stat")
	return s.session
}

// alive reports whether a process of the command has not ended.
func (p *process) alive() bool { return len(p.members()) > 0 }

//go:build !unix

package main

import (
	"os"
	"os/exec"
)

// This system has no signals and no process groups: the console sends Ctrl-C to the
// command, too, and a loss kills the command after the grace.

var signalsOfRun = []os.Signal{os.Interrupt}

func withstand()                     {}
func prepare(*exec.Cmd)              {}
func forward(*os.Process, os.Signal) {}
func kill(*os.Process)               {}
func groupLives(*os.Process) bool    { return false }
func dieOf(os.Signal)                {}

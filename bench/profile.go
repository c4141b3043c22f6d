package main

import (
	"errors"
	"os"
	"runtime"
	"runtime/pprof"
)

// profiles are the files to write for `go tool pprof`; none where empty.
type profiles struct{ cpu, memory string }

// fineRate is how many bytes are allocated between two that are looked at. It
// slows the run down a little: the times of a profiled run are not for show.
const fineRate = 4 << 10

// during runs run and writes the profiles of it.
func (p profiles) during(run func() error) error {
	if p.cpu != "" {
		file, err := os.Create(p.cpu)
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(file); err != nil {
			return errors.Join(err, file.Close())
		}
		measured := run
		run = func() error {
			err := measured()
			pprof.StopCPUProfile()
			return errors.Join(err, file.Close())
		}
	}
	if p.memory == "" {
		return run()
	}
	runtime.MemProfileRate = fineRate
	file, err := os.Create(p.memory)
	if err != nil {
		return err
	}
	err = run()
	runtime.GC() // only then is told what was allocated last
	return errors.Join(err, pprof.Lookup("allocs").WriteTo(file, 0), file.Close())
}

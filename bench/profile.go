package main

import (
	"errors"
	"os"
	"runtime"
	"runtime/pprof"
)

// profiles are the files to write for `go tool pprof`; empty means none.
type profiles struct{ cpu, memory string }

// during runs run and writes the profiles of it.
func (p profiles) during(run func() error) (err error) {
	if p.cpu != "" {
		file, err := os.Create(p.cpu)
		if err != nil {
			return err
		}
		defer file.Close()
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	if p.memory == "" {
		return run()
	}
	file, err := os.Create(p.memory)
	if err != nil {
		return err
	}
	// Bytes between two sampled allocations. It slows the run down a little, so the
	// times of a profiled run are not for publication.
	runtime.MemProfileRate = 4 << 10
	err = run()
	runtime.GC() // only then the last allocations are reported
	return errors.Join(err, pprof.Lookup("allocs").WriteTo(file, 0), file.Close())
}

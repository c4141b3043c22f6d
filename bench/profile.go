package main

import (
	"errors"
	"os"
	"runtime"
	"runtime/pprof"
)

// profiles are the files to write for `go tool pprof`; empty means none.
type profiles struct{ cpu, memory string }

// fineRate is the number of bytes between two sampled allocations. It slows the
// run down a little, so the times of a profiled run are not for publication.
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
	runtime.GC() // only then the last allocations are reported
	return errors.Join(err, pprof.Lookup("allocs").WriteTo(file, 0), file.Close())
}

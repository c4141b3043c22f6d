package servers

import (
	"fmt"
	"os"
	"strings"

	"github.com/prometheus/procfs"
)

// Machine is the processor and the memory, as Linux reports them.
func Machine() string {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return "unknown"
	}
	name, memory := "unknown processor", ""
	if processors, err := fs.CPUInfo(); err == nil && len(processors) > 0 {
		name = processors[0].ModelName
	}
	if info, err := fs.Meminfo(); err == nil && info.MemTotalBytes != nil {
		memory = fmt.Sprintf(", %.0f GiB", float64(*info.MemTotalBytes)/(1<<30))
	}
	return name + memory
}

// Load is the machine's work in the last minute.
func Load() string {
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Fields(string(load))[0]
}

package mongotest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Text on another process's standard error is added to it, and overwrites
// nothing, even if that is a file.
func TestForeignStderr(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stderr")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "echo first >&2; read go; echo third >&2")
	cmd.Stderr = file
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for text := []byte(nil); len(text) == 0; {
		if text, err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	if foreign := stderrOf(cmd.Process.Pid); foreign != nil {
		newProgress(foreign).say("second")
		_ = foreign.Close()
	} else if os.Geteuid() == 0 {
		t.Error("not even root gets there")
	}
	_ = stdin.Close()
	_ = cmd.Wait() // read fails at the end of its input
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 && string(text) != "first\nmongotest: second\nthird\n" {
		t.Errorf("it says %q", text)
	}
}

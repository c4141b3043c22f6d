package mongotest

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Text goes to another process's standard error, but not if that is a file, where
// it would overwrite the process's own.
func TestForeignStderr(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "sleep", "100")
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	foreign := stderrOf(cmd.Process.Pid)
	if foreign == nil {
		t.Fatal("a pipe can't be opened again")
	}
	newProgress(foreign).say("hello")
	if line, err := bufio.NewReader(pipe).ReadString('\n'); line != "mongotest: hello\n" || err != nil {
		t.Errorf("it says %q, %v", line, err)
	}
	_, _, _ = foreign.Close(), cmd.Process.Kill(), cmd.Wait()

	file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	cmd = exec.CommandContext(t.Context(), "sleep", "100")
	cmd.Stderr = file
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if stderrOf(cmd.Process.Pid) != nil {
		t.Error("a file is written to")
	}
	_, _ = cmd.Process.Kill(), cmd.Wait()
}

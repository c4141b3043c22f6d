package engine

import (
	"flag"
	"testing"

	"github.com/doclock/doclock/internal/mongotest"
)

// update rewrites testdata/commands with the commands that are sent.
var update = flag.Bool("update", false, "rewrite the commands in testdata from what is really sent")

func TestMain(m *testing.M) { mongotest.Main(m) }

package otel_test

import (
	"testing"

	"github.com/doclock/doclock/internal/mongotest"
)

func TestMain(m *testing.M) { mongotest.Main(m) }

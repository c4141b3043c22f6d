package mongotest_test

import (
	"testing"

	"github.com/doclock/doclock/internal/mongotest"
)

func TestMain(m *testing.M) { mongotest.Main(m) }

func TestX(t *testing.T) { t.Log(mongotest.Database(t).Name()) }

package cluster

import (
	"os"
	"testing"

	"github.com/culvert-net/culvert/lab"
)

func TestMain(m *testing.M) {
	lab.Reexec()
	os.Exit(m.Run())
}

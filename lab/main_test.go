//go:build !lab

package lab

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	Reexec()
	os.Exit(m.Run())
}

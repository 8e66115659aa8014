package conduct

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
)

// waiters is how many tests run beside each other. Only those that mostly wait are parallel: each sends
// little, in network namespaces of its own. The others run before them, one at a time.
const waiters = 4

// namespaces counts the sets of network namespaces that tests made, so that no two have the same names.
var namespaces atomic.Int32

// nameNamespaces returns a beginning for the names of network namespaces that no other test has.
func nameNamespaces(of string) string {
	return fmt.Sprintf("cv%s%d-%d", of, os.Getpid(), namespaces.Add(1))
}

func run(t *testing.T, argv ...string) {
	t.Helper()
	if out, err := exec.CommandContext(context.WithoutCancel(t.Context()), argv[0], argv[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s", argv, err, out)
	}
}

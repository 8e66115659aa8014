package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func sections(t *testing.T, text string) []*section {
	t.Helper()
	all, err := parseSections(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestTable(t *testing.T) {
	const fast = `part: fast
goos: linux
BenchmarkAttach-2    	      1	 217479801 ns/op	         1.21 x-floor
BenchmarkAttach-2    	      1	 217479801 ns/op	         1.41 x-floor
BenchmarkAttachFloor 	      12	 108682868 ns/op
bench: memory
BenchmarkDetach      	      12	 176914218 ns/op	         1.918 x-floor
PASS
part: pods
BenchmarkPodAttach   	      1	 217479801 ns/op	         2.0 x-faster-than-chain	         4.1 x-faster-vf-than-chain
`
	const want = `BUDGET                               NODE  ALLOWED       MEASURED
attach, to the bare kernel work      fast  at most 1.5x  1.31x     met
detach, to the bare kernel work      fast  at most 1.5x  1.92x     not met
attach, faster than the usual chain  pods  at least 5x   4.1x      not met
`
	if diff := cmp.Diff(want, formatTable(sections(t, fast))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if _, err := parseSections(strings.NewReader("part: fast\nBenchmarkX 1 y ns/op\n")); err == nil {
		t.Error("a value that is no number was read")
	}
}

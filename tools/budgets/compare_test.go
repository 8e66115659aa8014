package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// part returns the text of a section: one line for each value of a benchmark with one metric.
func part(head string, figures ...string) string {
	text := head + "\n"
	for _, f := range figures {
		benchmark, rest, _ := strings.Cut(f, " ")
		values, unit, _ := strings.Cut(rest, " ")
		for _, v := range strings.Split(values, ",") {
			text += fmt.Sprintf("Benchmark%s-2 1 %s %s\n", benchmark, v, unit)
		}
	}
	return text
}

const (
	four   = "1.00,1.01,1.02,1.03"
	more   = "1.20,1.21,1.22,1.23" // 20 %, significant
	nearby = "1.04,1.05,1.06,1.07" // 4 %, significant
	wide   = "0.50,1.01,1.30,1.60" // 14 %, by chance
)

// TestVerdict: a verdict separates worse and better figures from noise, by the direction of the unit.
func TestVerdict(t *testing.T) {
	for _, c := range []struct{ what, was, is, unit, want string }{
		{"a ratio to the floor rose", four, more, "x-floor", worse},
		{"a ratio to the floor fell", more, four, "x-floor", better},
		{"it is less far ahead of the chain", more, four, "x-faster-than-chain", worse},
		{"a ClusterIP carries less", more, four, "x-of-own-address", worse},
		{"a ClusterIP carries more", four, more, "x-of-own-address", better},
		{"it is faster than the chain", four, more, "x-faster-than-chain", better},
		{"the same", four, four, "x-floor", noise},
		{"significant, but small", four, nearby, "x-floor", noise},
		{"large, but by chance", four, wide, "x-floor", noise},
		{"one value each, within 10 %", "20", "21.9", "after-MiB", noise},
		{"one value each, beyond 10 %", "15.5", "33.4", "idle-MiB", worse},
		{"one value each, less", "33.4", "15.5", "idle-MiB", better},
		{"a file more", "9", "10", "after-files", worse},
		{"allocations where there were none", "0", "1", "allocs/op", worse},
		{"none and none", "0", "0", "allocs/op", noise},
		{"a time, which depends on the machine", four, more, "ns/op", notJudged},
		{"processor time, which does too", four, more, "culvertd-cpu-ms", notJudged},
		{"a figure that was not measured before", "", four, "x-floor", added},
		{"a figure that is no longer measured", four, "", "x-floor", missing},
	} {
		text := func(values string) string {
			if values == "" {
				return part("part: fast", "Other 1 x-floor")
			}
			return part("part: fast", "Other 1 x-floor", "Attach "+values+" "+c.unit)
		}
		got := noise
		for _, change := range compareFigures(sections(t, text(c.was)), sections(t, text(c.is))) {
			if change.benchmark == "BenchmarkAttach" {
				got = change.judgeChange()
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

// TestDescribe: figures that got worse come first, parts that were not measured do not count as
// missing, and figures of two packages with one name stay apart.
func TestDescribe(t *testing.T) {
	last := part("part: here\ncommit: a1\nmachine: 2 cores", "Parse 3 allocs/op") +
		part("pkg: b", "Parse 7 allocs/op") +
		part("part: fast\ncommit: a1\nmachine: 2 cores", "Attach "+four+" x-floor", "Attach 100,101,102,103 ns/op", "Old 1 MB") +
		part("part: memory\ncommit: a0\nmachine: 2 cores", "Memory 15.5 idle-MiB")
	now := part("part: here\ncommit: b2\nmachine: 8 cores", "Parse 3 allocs/op") +
		part("pkg: b", "Parse 5 allocs/op") +
		part("part: fast\ncommit: b2\nmachine: 2 cores", "Attach "+more+" x-floor", "Attach 200,201,202,203 ns/op", "New 1 MB")
	const want = `AGAINST THE LAST FIGURES  NODE  UNIT       LAST   NOW    CHANGE  P
Attach                    fast  x-floor    1.015  1.215  +20 %   0.029  worse
Parse                     here  allocs/op  7      5      -29 %   -      better
Old                       fast  MB         1      -      -       -      missing
New                       fast  MB         -      1      -       -      new
Attach                    fast  ns/op      101.5  201.5  +99 %   0.029  not judged
here: the last figures are of commit a1 on another machine (2 cores)
verdict: 1 of 4 figures GOT WORSE beyond noise, 1 better, 1 missing
`
	if diff := cmp.Diff(want, describeChanges(sections(t, last), sections(t, now))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got, want := describeChanges(sections(t, last), sections(t, last)), "verdict: none of 5 figures got worse beyond noise, 0 better\n"; got != want {
		t.Errorf("the same figures: %q, want %q", got, want)
	}
	const none = `here: there are no last figures; tools/bench --keep here writes these into test/bench/last.txt
fast: there are no last figures; tools/bench --keep fast writes these into test/bench/last.txt
verdict: nothing was compared
`
	if diff := cmp.Diff(none, describeChanges(nil, sections(t, now))); diff != "" {
		t.Errorf("without last figures: -want +got:\n%s", diff)
	}
}

// TestKeep: the figures of a part replace the last ones of that part, and no others.
func TestKeep(t *testing.T) {
	dir := t.TempDir()
	last, now := filepath.Join(dir, "last.txt"), filepath.Join(dir, "fast.txt")
	memory := part("part: memory\ncommit: a0\nmachine: m", "Memory 15.5 idle-MiB")
	for file, text := range map[string]string{
		last: part("part: fast\ncommit: a1\nmachine: m", "Attach 2 x-floor") + "\n" + memory,
		now:  "noise\n" + part("part: fast\ncommit: b2\nmachine: m", "Attach 1 x-floor") + "PASS\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, replace := range []bool{false, true} {
		var out bytes.Buffer
		if err := runBudgets(&out, last, replace, []string{now, filepath.Join(dir, "none.txt")}); err != nil {
			t.Fatal(err)
		}
		want := "verdict: none of 1 figures got worse beyond noise, 1 better\n"
		if !strings.HasSuffix(out.String(), want) {
			t.Errorf("it does not end with %q:\n%s", want, out.String())
		}
	}
	got, err := os.ReadFile(last)
	if err != nil {
		t.Fatal(err)
	}
	want := part("part: fast\ncommit: b2\nmachine: m", "Attach 1 x-floor") + "\n" + memory
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

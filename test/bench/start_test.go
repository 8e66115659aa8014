//go:build lab

package bench

import (
	"bytes"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// culvert is the program that brings labs up.
const culvert = "../../build/bin/culvert"

// BenchmarkStart measures how long machines take until they are of use, started from a snapshot and
// booted, in turns. The first start of each kind takes the snapshot and is not counted.
func BenchmarkStart(b *testing.B) {
	for _, kind := range []struct {
		name  string
		start func(b *testing.B, more ...string) time.Duration
	}{
		{"Fast", startFast},
		{"Lab", startLab},
		{"Guests", func(b *testing.B, more ...string) time.Duration { return startLab(b, append(more, "--guests")...) }},
		{"Kubernetes", func(b *testing.B, more ...string) time.Duration { return startLab(b, append(more, "--kubernetes")...) }},
	} {
		b.Run(kind.name, func(b *testing.B) {
			kind.start(b)
			b.ResetTimer()
			var restored, booted time.Duration
			for range b.N {
				restored += kind.start(b)
				booted += kind.start(b, "--no-snapshot")
			}
			b.ReportMetric(restored.Seconds()/float64(b.N), "restored-s")
			b.ReportMetric(booted.Seconds()/float64(b.N), "booted-s")
			b.ReportMetric(booted.Seconds()/restored.Seconds(), "x-faster-than-boot")
			b.ReportMetric(0, "ns/op")
		})
	}
}

var readyAfter = regexp.MustCompile(`ready after ([0-9.]+) s`)

// startFast returns the time from the start of a fast node to its first command.
func startFast(b *testing.B, more ...string) time.Duration {
	b.Helper()
	args := append(append([]string{"lab", "fast"}, more...), "--", "true")
	out, err := exec.CommandContext(b.Context(), culvert, args...).CombinedOutput()
	if err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	found := readyAfter.FindSubmatch(out)
	if found == nil {
		b.Fatalf("no time in %s", out)
	}
	seconds, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		b.Fatal(err)
	}
	return time.Duration(seconds * float64(time.Second))
}

// startLab returns the time that culvert lab up takes, and takes the lab down again.
func startLab(b *testing.B, more ...string) time.Duration {
	b.Helper()
	lab := fmt.Sprintf("start-%d", time.Now().UnixNano()%1e9)
	var said bytes.Buffer
	up := exec.CommandContext(b.Context(), culvert, append([]string{"lab", "--name", lab, "up"}, more...)...)
	up.Stdout, up.Stderr = &said, &said
	begin := time.Now()
	err := up.Run()
	took := time.Since(begin)
	if err != nil {
		b.Fatalf("%v\n%s", err, said.String())
	}
	if out, err := exec.CommandContext(b.Context(), culvert, "lab", "--name", lab, "down").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	return took
}

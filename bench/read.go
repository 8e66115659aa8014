package bench

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/excerpt"
)

// mostBytes is larger than any result: a day of runs of 10 s, each with its evidence,
// takes 50 MB.
const mostBytes = 64 << 20

// mostArms and mostRuns bound the work that a file can cause: every pair of arms may be compared,
// and each comparison draws from all runs of both.
const (
	mostArms  = 500
	mostRuns  = 50_000
	mostPaths = 500 // of an arm: a NIC has 256 VFs at most
)

// Read reads a result as [Write] writes it, also compressed by gzip. It refuses a file that is cut off or has another
// schema, an unknown key or a figure out of its bounds. The error names the place and the fault.
func Read(in io.Reader) (Result, error) {
	raw, err := readAll(in)
	if err != nil {
		return Result{}, err
	}
	if len(raw) > mostBytes {
		return Result{}, fmt.Errorf("is larger than %d MiB, which no result is", mostBytes>>20)
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		return Result{}, errors.New("is empty")
	}
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return Result{}, explainJSON(raw, err)
	}
	if head.Schema != Schema {
		return Result{}, fmt.Errorf("has the schema %s; this culvert reads %q", excerpt.Quote(head.Schema), Schema)
	}
	var r Result
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return Result{}, explainJSON(raw, err)
	}
	return r, r.Validate()
}

// readAll reads a little more than mostBytes at most. It decompresses what begins as gzip does.
func readAll(in io.Reader) ([]byte, error) {
	packed := bufio.NewReader(in)
	in = packed
	if start, _ := packed.Peek(2); bytes.Equal(start, []byte{0x1f, 0x8b}) {
		unpacked, err := gzip.NewReader(packed)
		if err != nil {
			return nil, fmt.Errorf("is not whole: %w", err)
		}
		in = unpacked
	}
	raw, err := io.ReadAll(io.LimitReader(in, mostBytes+1))
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("is cut off: %w", err)
	}
	return raw, err
}

// Write writes a result, or returns an error if it is not valid.
func Write(out io.Writer, r Result) error {
	if err := r.Validate(); err != nil {
		return err
	}
	raw, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	_, err = out.Write(append(raw, '\n'))
	return err
}

// explainJSON puts line and reason into an error of encoding/json.
func explainJSON(raw []byte, err error) error {
	at := func(offset int64) int { return 1 + bytes.Count(raw[:min(int64(len(raw)), offset)], []byte("\n")) }
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax) && syntax.Offset >= int64(len(bytes.TrimRight(raw, " \t\r\n"))):
		return fmt.Errorf("is cut off in line %d: the program that wrote it, or copied it, did not end", at(syntax.Offset))
	case errors.As(err, &syntax):
		return fmt.Errorf("line %d: not JSON: %w", at(syntax.Offset), err)
	case errors.As(err, &kind):
		place := fmt.Sprintf("line %d", at(kind.Offset))
		if kind.Field != "" {
			place += ": " + kind.Field
		}
		return fmt.Errorf("%s: a JSON %s, want %s", place, excerpt.Line(kind.Value), describeKind(kind.Type))
	}
	// encoding/json has no type for an unknown field: its text is all that there is.
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}

// describeKind names a type as JSON does.
func describeKind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Pointer:
		return describeKind(t.Elem())
	}
	return "a number of its range"
}

// Validate returns an error for the first fault of a result, with its place in the JSON. A valid
// result can be drawn, and its figures can be computed with.
func (r Result) Validate() error {
	if r.Schema != Schema {
		return fmt.Errorf("schema %q: want %q", r.Schema, Schema)
	}
	if len(r.Arms) > mostArms || len(r.Runs) > mostRuns {
		return fmt.Errorf("%d arms and %d runs: no result has more than %d and %d", len(r.Arms), len(r.Runs), mostArms, mostRuns)
	}
	machines := map[string]bool{}
	for i, m := range r.Machines {
		if m.Name == "" || machines[m.Name] {
			return fmt.Errorf("machines[%d].name %q: want one, unlike the others", i, m.Name)
		}
		machines[m.Name] = true
	}
	arms := map[string]bool{}
	for i, a := range r.Arms {
		if a.Name == "" || arms[a.Name] {
			return fmt.Errorf("arms[%d].name %q: want one, unlike the others", i, a.Name)
		}
		arms[a.Name] = true
		if err := a.checkFields(machines); err != nil {
			return fmt.Errorf("arms[%d] (%s): %w", i, a.Name, err)
		}
	}
	for i, run := range r.Runs {
		if run.Arm < 0 || run.Arm >= len(r.Arms) {
			return fmt.Errorf("runs[%d].arm %d: there are %d arms", i, run.Arm, len(r.Arms))
		}
		if err := run.checkFields(); err != nil {
			return fmt.Errorf("runs[%d]: %w", i, err)
		}
		if run.Via != nil && r.Arms[run.Arm].Path.Via == (Relay{}) {
			return fmt.Errorf("runs[%d].via: the arm's path has nothing in the middle", i)
		}
		if n, want := len(run.Shares), len(r.Arms[run.Arm].Paths()); n != 0 && (n != want || want == 1) {
			return fmt.Errorf("runs[%d].shares: %d of them, and the arm's paths are %d", i, n, want)
		}
	}
	if err := r.checkSides(); err != nil {
		return err
	}
	for i, p := range r.Printed {
		for key, name := range map[string]string{"arm": p.Arm, "base": p.Base} {
			if name != "" && !arms[name] {
				return fmt.Errorf("printed[%d].%s %q: there is no such arm", i, key, name)
			}
		}
	}
	return nil
}

func (a Arm) checkFields(machines map[string]bool) error {
	switch a.Workload.Kind {
	case Stream, Datagram, Request, Connect, Packets, Echo:
	default:
		return fmt.Errorf("workload.kind %q: want %s, %s, %s, %s, %s or %s", a.Workload.Kind, Stream, Datagram, Request, Connect, Packets, Echo)
	}
	for _, p := range a.Paths() {
		if err := p.checkFields(machines); err != nil {
			return fmt.Errorf("path: %w", err)
		}
	}
	if len(a.Also) > mostPaths {
		return fmt.Errorf("also: %d more paths: no arm has more than %d", len(a.Also), mostPaths)
	}
	if a.Workload.Size < 0 || a.Workload.Streams < 0 || a.Workload.Window < 0 || a.Workload.RateLimit < 0 {
		return errors.New("workload: size, streams, window and rateLimit are not below 0")
	}
	if n := len(a.AlsoBounds); n > 0 && n != len(a.Also) {
		return fmt.Errorf("alsoBounds: %d of them, and also has %d paths", n, len(a.Also))
	}
	for _, b := range a.EachBounds() {
		if err := checkFigures("generatorGbps", b.GeneratorGbps, "generatorPPS", b.GeneratorPPS, "rtt", b.RTT, "rateMbps", float64(b.RateMbps),
			"qdiscMbps", b.QdiscMbps, "throughputGbps", b.ThroughputGbps); err != nil {
			return err
		}
	}
	return checkFigures("workload.seconds", a.Workload.Seconds, "workload.rate", a.Workload.Rate, "workload.load", a.Workload.Load, "ceilingGbps", a.CeilingGbps, "ceilingPPS", a.CeilingPPS)
}

func (p Path) checkFields(machines map[string]bool) error {
	if p.Replaced != "" && p.Replaced != AtSocket && p.Replaced != InPackets {
		return fmt.Errorf("replaced %q: want %q or %q", p.Replaced, AtSocket, InPackets)
	}
	names := []string{p.From.Machine, p.To.Machine}
	if p.Via != (Relay{}) {
		names = append(names, p.Via.Machine)
		if ways := []Forward{Routes, Bridges, ForwardsByDPDK}; !slices.Contains(ways, p.Via.How) {
			return fmt.Errorf("via.how %q: want %s", p.Via.How, excerpt.Join(ways))
		}
	}
	for _, name := range names {
		if !machines[name] {
			return fmt.Errorf("there is no machine %q", name)
		}
	}
	return nil
}

// checkFields checks the figures of a run, also of a void one, since reports show them.
func (r Run) checkFields() error {
	if err := checkFigures("seconds", r.Seconds, "gbps", r.Gbps, "pps", r.PPS); err != nil {
		return err
	}
	for name, all := range map[string][]float64{"series": r.Series, "cwnd": r.Cwnd, "sentSeconds": {r.SentSeconds}} {
		for _, v := range all {
			if err := checkFigures(name, v); err != nil {
				return err
			}
		}
	}
	if l := r.Load; l != nil {
		if err := checkFigures("load.gbps", l.Gbps); err != nil {
			return err
		}
	}
	if d := r.Delays; d != nil {
		if err := checkFigures("delays.min", d.Min, "delays.mean", d.Mean, "delays.max", d.Max); err != nil {
			return err
		}
		if len(d.Bins) > mostBins {
			return fmt.Errorf("delays.bins: %d of them: no result has more than %d", len(d.Bins), mostBins)
		}
		if !(d.Min <= d.P50 && d.P50 <= d.P90 && d.P90 <= d.P99 && d.P99 <= d.P999 && d.P999 <= d.Max) {
			return fmt.Errorf("delays: min %g, p50 %g, p90 %g, p99 %g, p999 %g, max %g are not in order", d.Min, d.P50, d.P90, d.P99, d.P999, d.Max)
		}
	}
	seen := map[string]Evidence{"from": r.From, "to": r.To}
	if r.Via != nil {
		seen["via"] = *r.Via
	}
	for name, e := range seen {
		if err := e.CPU.checkFields(); err != nil {
			return fmt.Errorf("%s.cpu.%w", name, err)
		}
		if err := checkFigures("engineSeconds", e.EngineSeconds, "throttled.seconds", e.Throttled.Seconds, "whole.seconds", e.Whole.Seconds); err != nil {
			return fmt.Errorf("%s.%w", name, err)
		}
		if e.Guest == nil {
			continue
		}
		if err := e.Guest.checkFields(); err != nil {
			return fmt.Errorf("%s.guest.%w", name, err)
		}
	}
	if len(r.Shares) > 0 {
		for i, one := range r.Each() {
			if err := one.checkFields(); err != nil {
				return fmt.Errorf("shares[%d].%w", i, err)
			}
		}
	}
	return nil
}

func (c CPUUse) checkFields() error {
	for name, tasks := range map[string]map[string]float64{"tasks": c.Tasks, "others": c.Others} {
		for task, seconds := range tasks {
			if err := checkFigures(name+"."+task, seconds); err != nil {
				return err
			}
		}
	}
	if c.Background != nil {
		if err := checkFigures("background", *c.Background); err != nil {
			return err
		}
	}
	return checkFigures("seconds", c.Seconds, "user", c.User, "system", c.System, "irq", c.IRQ, "softirq", c.SoftIRQ, "steal", c.Steal, "idle", c.Idle, "busiest", c.Busiest)
}

// mostFigure is larger than any figure that is measured here, such as packets a second or
// microseconds, and small enough that sums do not overflow.
const mostFigure = 1e15

// checkFigures takes names, each followed by its value, and returns an error unless all values are
// between 0 and mostFigure.
func checkFigures(pairs ...any) error {
	for i := 0; i+1 < len(pairs); i += 2 {
		v, ok := pairs[i+1].(float64)
		if !ok || math.IsNaN(v) || v < 0 || v > mostFigure {
			return fmt.Errorf("%s %v: want a number between 0 and %g", pairs[i], pairs[i+1], mostFigure)
		}
	}
	return nil
}

package bench

import (
	"bytes"
	"compress/gzip"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func written(t testing.TB, r Result) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// brokenDisk takes no byte.
type brokenDisk struct{}

func (brokenDisk) Write([]byte) (int, error) { return 0, errors.New("no space") }

func TestReadWrite(t *testing.T) {
	r := measured(times6(9), times6(200))
	got, err := Read(strings.NewReader(written(t, r)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if _, err := Read(iotest.ErrReader(errors.New("no disk"))); err == nil || err.Error() != "no disk" {
		t.Errorf("a disk that fails: %v", err)
	}
	if err := Write(brokenDisk{}, r); err == nil || err.Error() != "no space" {
		t.Errorf("a disk that is full: %v", err)
	}
	r.Arms[0].Name = ""
	if err := Write(new(bytes.Buffer), r); err == nil {
		t.Error("a wrong result was written")
	}
}

// TestReadRefuses changes a valid file in one place in each case.
// A compressed result is read as it is, and refused when it is cut off or large.
func TestReadCompressed(t *testing.T) {
	pack := func(text string) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	whole := pack(`{"schema": "` + Schema + `"}`)
	if r, err := Read(bytes.NewReader(whole)); err != nil || r.Schema != Schema {
		t.Errorf("%+v, %v", r, err)
	}
	for name, c := range map[string]struct {
		packed []byte
		err    string
	}{
		"cut off":        {whole[:len(whole)-6], "is cut off"},
		"only the start": {whole[:5], "is not whole"},
		"large":          {pack(strings.Repeat(" ", mostBytes+2)), "is larger than"},
	} {
		if _, err := Read(bytes.NewReader(c.packed)); err == nil || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	right := written(t, measured([]float64{9}, []float64{200}))
	replaced := func(old, by string) string {
		if !strings.Contains(right, old) {
			t.Fatalf("no %s in\n%s", old, right)
		}
		return strings.Replace(right, old, by, 1)
	}
	for name, c := range map[string]struct{ text, want string }{
		"empty":               {" \n", "is empty"},
		"cut off":             {right[:len(right)/2], "is cut off in line"},
		"cut off in a string": {right[:20], "is cut off in line 2"},
		"two files":           {right + right, "not JSON: invalid character '{' after top-level value"},
		"not JSON":            {"<html>", "line 1: not JSON: invalid character '<'"},
		"NaN":                 {replaced(`"gbps": 9`, `"gbps": NaN`), "not JSON: invalid character 'N'"},
		"a list":              {"[]", "a JSON array, want"},
		"another schema":      {replaced("bench/v1", "bench/v9"), `has the schema "culvert.dev/bench/v9"; this culvert reads "culvert.dev/bench/v1"`},
		"no schema":           {"{}", `has the schema ""`},
		"an unknown key":      {replaced(`"gbps"`, `"<script>"`), `unknown field "<script>"`},
		"a string for a rate": {replaced(`"gbps": 9`, `"gbps": "9"`), "runs.gbps: a JSON string, want a number"},
		"below 0":             {replaced(`"gbps": 9`, `"gbps": -9`), "runs[0]: gbps -9: want a number between 0 and 1e+15"},
		"too large":           {replaced(`"gbps": 9`, `"gbps": 1e300`), "runs[0]: gbps 1e+300: want a number"},
		"beyond all numbers":  {replaced(`"gbps": 9`, `"gbps": 1e999`), "runs.gbps: a JSON number 1e999, want a number"},
		"no such arm":         {replaced(`"arm": 0`, `"arm": 2`), "runs[0].arm 2: there are 2 arms"},
		"an arm twice":        {replaced(`"name": "ask"`, `"name": "VF"`), `arms[1].name "VF": want one, unlike the others`},
		"a machine twice":     {replaced(`"name": "b"`, `"name": "a"`), `machines[1].name "a": want one, unlike the others`},
		"no such machine":     {replaced(`"machine": "a"`, `"machine": "z"`), `arms[0] (VF): path: there is no machine "z"`},
		"no such kind":        {replaced(`"kind": "stream"`, `"kind": "flood"`), `arms[0] (VF): workload.kind "flood": want stream, datagram, request, connect, packets or echo`},
		"no duration":         {replaced(`"kind": "stream",`, `"kind": "stream", "rate": -1,`), "arms[0] (VF): workload.rate -1: want a number"},
		"a size below 0":      {replaced(`"kind": "stream",`, `"kind": "stream", "size": -1,`), "arms[0] (VF): workload: size, streams, window and rateLimit are not below 0"},
		"delays out of order": {replaced(`"p90": 200`, `"p90": 100`), "runs[1]: delays: min 200, p50 200, p90 100"},
		"a delay below 0":     {replaced(`"min": 200`, `"min": -1`), "runs[1]: delays.min -1: want a number"},
		"CPU below 0":         {replaced(`"steal": 0`, `"steal": -1`), "runs[0]: from.cpu.steal -1: want a number"},
		"background below 0":  {replaced(`"steal": 0`, `"steal": 0, "background": -1`), "runs[0]: from.cpu.background -1: want a number"},
		"others below 0":      {replaced(`"steal": 0`, `"steal": 0, "others": {"cc1": -1}`), "runs[0]: from.cpu.others.cc1 -1: want a number"},
		"a guest's CPU":       {replaced(`"cpu": {`, `"guest": {"idle": -1}, "cpu": {`), "runs[0]: from.guest.idle -1: want a number"},
		"engine below 0":      {replaced(`"cpu": {`, `"engineSeconds": -1, "cpu": {`), "runs[0]: from.engineSeconds -1: want a number"},
		"series below 0":      {replaced(`"gbps": 9,`, `"gbps": 9, "series": [1, -1],`), "runs[0]: series -1: want a number"},
		"no such way":         {replaced(`"from": {`, `"via": {"machine": "a", "name": "r", "how": "floods"}, "from": {`), `arms[0] (VF): path: via.how "floods": want routes, bridges, forwards by DPDK`},
		"replaced nowhere":    {replaced(`"from": {`, `"replaced": "by magic", "from": {`), `arms[0] (VF): path: replaced "by magic": want "at the socket" or "in packets"`},
		"no such middle":      {replaced(`"from": {`, `"via": {"machine": "z", "name": "r", "how": "routes"}, "from": {`), `arms[0] (VF): path: there is no machine "z"`},
		"in the middle, none": {replaced(`"gbps": 9,`, `"gbps": 9, "via": {"cpu": {}, "softnet": {}},`), "runs[0].via: the arm's path has nothing in the middle"},
		"printed of nothing":  {replaced(`"seed": 0,`, `"seed": 0, "printed": [{"name": "R0", "arm": "z", "value": 1, "unit": "Gb/s"}],`), `printed[0].arm "z": there is no such arm`},
	} {
		if _, err := Read(strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nwant %s", name, err, c.want)
		}
	}
	if err := (Result{Schema: "culvert.dev/bench/v9"}).Validate(); err == nil || err.Error() != `schema "culvert.dev/bench/v9": want "culvert.dev/bench/v1"` {
		t.Errorf("another schema: %v", err)
	}
	many := Result{Schema: Schema, Arms: make([]Arm, mostArms+1)}
	if err := many.Validate(); err == nil || !strings.Contains(err.Error(), "501 arms and 0 runs: no result has more") {
		t.Errorf("many arms: %v", err)
	}
	large := Result{Schema: Schema, Unfinished: strings.Repeat("x", mostBytes)}
	if _, err := Read(strings.NewReader(written(t, large))); err == nil || !strings.Contains(err.Error(), "larger than 64 MiB") {
		t.Errorf("large: %v", err)
	}
}

// FuzzRead: the figures of a result that Read accepts can be computed with, and Read returns the
// same result after Write.
func FuzzRead(f *testing.F) {
	f.Add(written(f, measured([]float64{9, 8}, []float64{200})))
	arm, run := threeSenders()
	f.Add(written(f, Result{Schema: Schema, Machines: []Machine{{Name: "n1"}, {Name: "n2"}}, Arms: []Arm{arm}, Runs: []Run{run}}))
	f.Add(`{"schema":"culvert.dev/bench/v1","runs":[{"arm":0}]}`)
	f.Add(`{"schema":"culvert.dev/bench/v1","arms":[{"name":"\u0000<"}],"machines":[null]}`)
	f.Add(`{"schema":"culvert.dev/bench/v1","seed":18446744073709551616}`)
	f.Add(`{"SCHEMA":"culvert.dev/bench/v1"}`)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Read(strings.NewReader(text))
		if err != nil {
			return
		}
		first := written(t, r)
		again, err := Read(strings.NewReader(first))
		if err != nil {
			t.Fatalf("%v in\n%s", err, first)
		}
		if written(t, again) != first {
			t.Fatal("it reads as another one")
		}
		if len(r.Arms)*len(r.Runs) > 50 {
			return // right, and slow
		}
		r.Pairs()
		Remarks(r)
		if len(r.Sides) > 0 {
			CompareSides(r, []Rule{{Metric: "throughput", Below: true, Part: -0.05}})
		}
		if got := CompareResults(r, r, nil); got.Unlike != nil || got.Missing != nil {
			t.Errorf("unlike itself: %q %q", got.Unlike, got.Missing)
		}
		for _, run := range r.Runs {
			Limits(run, r.Arms[run.Arm])
			r.Arms[run.Arm].Fairness(run)
		}
	})
}

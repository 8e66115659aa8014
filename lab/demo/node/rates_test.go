package node

import (
	"strings"
	"testing"
)

const printedRates = `100.5
{"intervals": [
 {"sum": {"start": 0, "end": 1, "bits_per_second": 50}},
 {"sum": {"start": 1, "end": 2, "bits_per_second": 100}},
 {"sum": {"start": 2, "end": 3, "bits_per_second": 110}},
 {"sum": {"start": 3, "end": 4, "bits_per_second": 95}},
 {"sum": {"start": 4, "end": 5, "bits_per_second": 89}},
 {"sum": {"start": 5, "end": 6, "bits_per_second": 90}}]}`

// printedError returns what iperf3 prints if it ends with an error.
func printedError(text string) string {
	return strings.TrimSuffix(printedRates, "}") + `, "error": "` + text + `"}`
}

// iperf3 has recovered with the first whole interval after the gap that has 90 % of the median
// before it.
func TestFindRecovery(t *testing.T) {
	rates, err := parseRates(printedError("interrupt - the client has terminated"))
	if err != nil {
		t.Fatal(err)
	}
	for gap, want := range map[Gap]float64{{103.6, 103.7}: 2.9, {103.4, 103.5}: 1.1, {103.5, 103.6}: 3} {
		if got, ok := findRecovery(rates, gap); !ok || got < want-0.001 || got > want+0.001 {
			t.Errorf("%v: %g, %t; want %g", gap, got, ok, want)
		}
	}
	for _, gap := range []Gap{{100, 101}, {103.4, 105.6}} { // nothing was sent before it; nothing is enough after it
		if got, ok := findRecovery(rates, gap); ok {
			t.Errorf("%v: %g", gap, got)
		}
	}
}

// A connection that is lost is an error, and the rates until then are kept. A signal is no error.
func TestLostConnection(t *testing.T) {
	const lost = "unable to receive control message"
	rates, err := parseRates(printedError(lost))
	if err == nil || err.Error() != lost || len(rates) != 6 {
		t.Errorf("%v, %v", rates, err)
	}
	for _, text := range []string{"", "soon\n{}", "100\niperf3: error"} {
		if rates, err := parseRates(text); err == nil {
			t.Errorf("%q: %v", text, rates)
		}
	}
}

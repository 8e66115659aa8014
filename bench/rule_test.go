package bench

import (
	"strings"
	"testing"
)

func TestParseRule(t *testing.T) {
	for text, want := range map[string]Rule{
		"throughput<-5%": {"throughput", true, -0.05},
		" pps < -0.5 % ": {"pps", true, -0.005},
		"p99>10%":        {"p99", false, 0.1},
		"requests<-5%":   {"requests", true, -0.05},
		"cpu>+1e2%":      {"cpu", false, 1},
		"p50 >\t12.5 %":  {"p50", false, 0.125},
	} {
		got, err := ParseRule(text)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"":                 "no < or >",
		"throughput=-5%":   "no < or >",
		"thruput<-5%":      `no metric "thruput", there are throughput, pps, requests, p50, p99, cpu`,
		"throughput<-5":    "no % at the end: it is about a change",
		"throughput<<-5%":  `"<-5" is no number of percent`,
		"throughput<NaN%":  `"NaN" is no number of percent`,
		"throughput<-Inf%": `"-Inf" is no number of percent`,
		"throughput<%":     `"" is no number of percent`,
		"throughput>5%":    "more throughput is better: use <",
		"cpu<-5%":          "less cpu is better: use >",
		"throughput<5%":    "want -0.01 % or less after <",
		"p99>-1%":          "want 0.01 % or more after >",
	} {
		if _, err := ParseRule(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// FuzzParseRule: a parsed rule prints as text that parses to the same rule, and a result equal to
// the first never breaks it.
func FuzzParseRule(f *testing.F) {
	for _, s := range []string{"throughput<-5%", "p99 > 10.5 %", "cpu>1e5%", "pps<-1e-300%", "p50>\x00%", "<%", "cpu>0x1p3%", "cpu>1_0%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRule(text)
		if err != nil {
			if len(err.Error()) > 3000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		if r.Below && !(r.Part < 0) || !r.Below && !(r.Part > 0) {
			t.Errorf("%q: %+v", text, r)
		}
		again, err := ParseRule(r.String())
		if err != nil || again.String() != r.String() {
			t.Errorf("%q prints as %s, which reads as %s, %v", text, r, again, err)
		}
	})
}

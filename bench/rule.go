package bench

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/culvert-net/culvert/internal/excerpt"
)

// Rule is a change between two results that is not allowed: "throughput<-5%".
type Rule struct {
	Metric string  // a name of MetricNames
	Below  bool    // the rule fails below Part, else above it
	Part   float64 // of the first result's median: -0.05 is 5 % less
}

// leastPercent is a smaller change than any measurement can show.
const leastPercent = 0.01

// ParseRule reads METRIC<PERCENT% or METRIC>PERCENT%, spaces anywhere between. The percent is the
// change for the worse that the rule allows. ParseRule refuses a rule that a result equal to the
// first would break, and a rule about a change for the better.
func ParseRule(text string) (Rule, error) {
	fail := func(format string, args ...any) (Rule, error) {
		return Rule{}, fmt.Errorf("rule %s: %s; rules are like throughput<-5%% or p99>10%%", excerpt.Quote(text), fmt.Sprintf(format, args...))
	}
	i := strings.IndexAny(text, "<>")
	if i < 0 {
		return fail("no < or >")
	}
	r := Rule{Metric: strings.TrimSpace(text[:i]), Below: text[i] == '<'}
	if !slices.Contains(MetricNames(), r.Metric) {
		return fail("no metric %s, there are %s", excerpt.Quote(r.Metric), strings.Join(MetricNames(), ", "))
	}
	digits, percent := strings.CutSuffix(strings.TrimSpace(text[i+1:]), "%")
	if !percent {
		return fail("no %% at the end: it is about a change")
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	if err != nil || math.IsNaN(v) || math.Abs(v) > 1e6 {
		return fail("%s is no number of percent", excerpt.Quote(digits))
	}
	switch better := slices.Contains([]string{"throughput", "pps", "requests"}, r.Metric); {
	case better != r.Below && better:
		return fail("more %s is better: use <", r.Metric)
	case better != r.Below:
		return fail("less %s is better: use >", r.Metric)
	case r.Below && v > -leastPercent:
		return fail("want -%g %% or less after <: a result equal to the first would fail", leastPercent)
	case !r.Below && v < leastPercent:
		return fail("want %g %% or more after >: a result equal to the first would fail", leastPercent)
	}
	r.Part = v / 100
	return r, nil
}

func (r Rule) String() string {
	sign := ">"
	if r.Below {
		sign = "<"
	}
	return r.Metric + sign + strconv.FormatFloat(100*r.Part, 'g', 12, 64) + "%"
}

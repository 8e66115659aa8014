package bench

import "math"

// Metric is one thing by which arms are compared.
type Metric struct {
	Name  string // "throughput": what people write
	Title string // what tables say
	Unit  string
	Less  bool // less is better
	// Of is a run's value, NaN where it was not measured.
	Of func(Arm, Run) float64
}

// MetricNames are those of all metrics.
func MetricNames() []string { return []string{"throughput", "pps", "p50", "p99", "cpu"} }

// Metrics are what a kind of workload is measured by, what it is about first. CPU is
// told for each Gb/s, and of packets for each.
func Metrics(k Kind) []Metric {
	throughput := Metric{"throughput", "throughput", "Gb/s", false, func(_ Arm, r Run) float64 { return r.Gbps }}
	pps := Metric{"pps", "packet rate", "Mpps", false, func(_ Arm, r Run) float64 { return r.PPS / 1e6 }}
	cpu := Metric{"cpu", "CPU per Gb/s", "% core", true, func(a Arm, r Run) float64 { return a.Cost(r).PerGbps }}
	delay := func(name, title string, of func(Delays) float64) Metric {
		return Metric{name, title, "us", true, func(_ Arm, r Run) float64 {
			if r.Delays == nil {
				return math.NaN()
			}
			return of(*r.Delays)
		}}
	}
	switch k {
	case Stream:
		return []Metric{throughput, cpu}
	case Datagram:
		return []Metric{throughput, pps, cpu}
	case Packets:
		cpu = Metric{"cpu", "CPU per packet", "ns", true, func(a Arm, r Run) float64 { return a.Cost(r).NsPerPacket }}
		return []Metric{pps, cpu}
	case Request, Echo:
	}
	return []Metric{
		delay("p50", "latency, median", func(d Delays) float64 { return d.P50 }),
		delay("p99", "latency, 99 %", func(d Delays) float64 { return d.P99 }),
	}
}

// Main is the metric that the arm is about.
func (a Arm) Main() Metric { return Metrics(a.Workload.Kind)[0] }

// Counted are the runs of an arm that count: neither void nor made to warm up.
func (r Result) Counted(arm int) []Run {
	var out []Run
	for _, run := range r.Runs {
		if run.Arm == arm && run.Void == "" && !run.Discard {
			out = append(out, run)
		}
	}
	return out
}

// Ceiling is that of the arm's main metric, in its unit; 0 is unknown.
func (a Arm) Ceiling() float64 {
	switch a.Main().Name {
	case "throughput":
		return a.CeilingGbps
	case "pps":
		return a.CeilingPPS / 1e6
	}
	return 0
}

// Values are a metric's of the runs of an arm that count and have it.
func (r Result) Values(arm int, m Metric) []float64 {
	var out []float64
	for _, run := range r.Counted(arm) {
		if v := m.Of(r.Arms[arm], run); !math.IsNaN(v) {
			out = append(out, v)
		}
	}
	return out
}

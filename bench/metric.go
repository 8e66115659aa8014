package bench

import "math"

// Metric is one thing by which arms are compared.
type Metric struct {
	Name  string // "throughput": what people write
	Title string // what tables say
	Unit  string
	Less  bool // less is better
	// Of returns a run's value, or NaN if it was not measured.
	Of func(Arm, Run) float64
}

// MetricNames returns the names of all metrics.
func MetricNames() []string { return []string{"throughput", "pps", "requests", "p50", "p99", "cpu"} }

// Metrics returns the metrics of a kind of workload, its main one first. The metric "cpu" is for
// each Gb/s, or for each packet if the workload is packets.
func Metrics(k Kind) []Metric {
	throughput := Metric{"throughput", "throughput", "Gb/s", false, func(_ Arm, r Run) float64 { return r.Gbps }}
	pps := Metric{"pps", "packet rate", "Mpps", false, func(_ Arm, r Run) float64 { return r.PPS / 1e6 }}
	cpu := Metric{"cpu", "CPU per Gb/s", "% core", true, func(a Arm, r Run) float64 { return a.Cost(r).PerGbps }}
	delay := func(name, title string, q float64) Metric {
		return Metric{name, title, "us", true, func(_ Arm, r Run) float64 { return r.Percentile(q) }}
	}
	switch k {
	case Stream:
		return []Metric{throughput, cpu}
	case Datagram:
		return []Metric{throughput, pps, cpu}
	case Packets:
		cpu = Metric{"cpu", "CPU per packet", "ns", true, func(a Arm, r Run) float64 { return a.Cost(r).NsPerPacket }}
		return []Metric{pps, cpu}
	case Request, Connect, Echo:
	}
	delays := []Metric{
		delay("p50", "latency, median", 0.5),
		delay("p99", "latency, 99 %", 0.99),
	}
	if k == Connect {
		requests := Metric{"requests", "requests", "requests/s", false, func(_ Arm, r Run) float64 { return r.PPS }}
		return append([]Metric{requests}, delays...)
	}
	return delays
}

// Main returns the arm's main metric.
func (a Arm) Main() Metric { return Metrics(a.Workload.Kind)[0] }

// Counted returns the runs of an arm that count: those that are neither void nor warm-up.
func (r Result) Counted(arm int) []Run {
	var out []Run
	for i := range r.Runs {
		if run := &r.Runs[i]; run.Arm == arm && run.Void == "" && !run.Discard {
			out = append(out, *run)
		}
	}
	return out
}

// Ceiling returns the wire's ceiling for the arm's main metric, in the metric's unit; 0 means
// unknown.
func (a Arm) Ceiling() float64 {
	switch a.Main().Name {
	case "throughput":
		return a.CeilingGbps
	case "pps":
		return a.CeilingPPS / 1e6
	}
	return 0
}

// Values returns a metric's values in the counted runs of an arm that have it.
func (r Result) Values(arm int, m Metric) []float64 {
	var out []float64
	for _, run := range r.Counted(arm) {
		if v := m.Of(r.Arms[arm], run); !math.IsNaN(v) {
			out = append(out, v)
		}
	}
	return out
}

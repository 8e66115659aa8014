package bench

import (
	"maps"
	"slices"
)

// figure is one metric of one arm, in the two that are compared.
type figure struct {
	arm     Arm
	metric  Metric
	was, is []float64 // the values that a test compares
	all     [2][]float64
}

// figuresByRound returns the figures of two sides that have the same arms. was and is have the
// rounds in which both sides have a run that counts.
func figuresByRound(a, b Result) (figures []figure) {
	for i, arm := range a.Arms {
		for _, m := range Metrics(arm.Workload.Kind) {
			was, is := a.byRound(i, m), b.byRound(i, m)
			f := figure{arm: arm, metric: m, all: [2][]float64{inOrder(was), inOrder(is)}}
			if len(was)+len(is) == 0 {
				continue
			}
			f.is, f.was = sharedRounds(is, was)
			figures = append(figures, f)
		}
	}
	return figures
}

func inOrder(rounds map[int]float64) (values []float64) {
	for _, round := range slices.Sorted(maps.Keys(rounds)) {
		values = append(values, rounds[round])
	}
	return values
}

// sharedRounds returns the values of the rounds that both have.
func sharedRounds(is, was map[int]float64) (a, b []float64) {
	for _, round := range slices.Sorted(maps.Keys(is)) {
		if v, both := was[round]; both {
			a, b = append(a, is[round]), append(b, v)
		}
	}
	return a, b
}

// Observation has the values of the arms of one result that a comparison uses.
type Observation struct {
	Arms   []Arm
	values []map[string][]float64 // of each arm, by the name of the metric
}

// Observe returns a result as one value of each metric of each arm: the median of its runs.
func Observe(r Result) Observation {
	o := observeRuns(r)
	for _, metrics := range o.values {
		for name, values := range metrics {
			metrics[name] = []float64{Median(values)}
		}
	}
	return o
}

// observeRuns returns a result with the values of all runs that count.
func observeRuns(r Result) Observation {
	o := Observation{Arms: r.Arms}
	for i, arm := range r.Arms {
		metrics := map[string][]float64{}
		for _, m := range Metrics(arm.Workload.Kind) {
			if values := r.Values(i, m); len(values) > 0 {
				metrics[m.Name] = values
			}
		}
		o.values = append(o.values, metrics)
	}
	return o
}

// armsOfAll returns the arms that any of the results has, by their names.
func armsOfAll(all []Observation) (arms []Arm) {
	for _, o := range all {
		for _, a := range o.Arms {
			if armNamed(arms, a.Name) < 0 {
				arms = append(arms, a)
			}
		}
	}
	return arms
}

// valuesOf returns the values of a metric of an arm, in all results that have it.
func valuesOf(all []Observation, arm Arm, m Metric) (values []float64) {
	for _, o := range all {
		if i := armNamed(o.Arms, arm.Name); i >= 0 && o.Arms[i].Workload.Kind == arm.Workload.Kind {
			values = append(values, o.values[i][m.Name]...)
		}
	}
	return values
}

// figuresOf returns the figures of the arms that both groups have.
func figuresOf(a, b []Observation) (figures []figure) {
	there := armsOfAll(b)
	for _, arm := range armsOfAll(a) {
		if j := armNamed(there, arm.Name); j < 0 || there[j].Workload.Kind != arm.Workload.Kind {
			continue
		}
		for _, m := range Metrics(arm.Workload.Kind) {
			was, is := valuesOf(a, arm, m), valuesOf(b, arm, m)
			if len(was)+len(is) > 0 {
				figures = append(figures, figure{arm, m, was, is, [2][]float64{was, is}})
			}
		}
	}
	return figures
}

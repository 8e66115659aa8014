package report

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/bench"
)

// label is the name of an arm in the report: its path, its question, and what sets it apart from
// the question's other arms. Names in a result have the presets instead ("VF net1-net1 m6 64 B").
type label struct {
	path, short, variant string
	whole                string // instead of the parts, for an arm without a path or with a label like another one
}

// full returns the name that stands alone: "VF pod-pod, TCP 64 KiB".
func (l label) full() string {
	if l.whole != "" {
		return l.whole
	}
	return l.path + ", " + strings.TrimSpace(l.short+" "+l.variant)
}

// within returns the name below the question: "VF pod-pod, 64 KiB".
func (l label) within() string {
	switch {
	case l.whole != "":
		return l.whole
	case l.variant == "":
		return l.path
	}
	return l.path + ", " + l.variant
}

// asks returns the question's short name: "TCP".
func (l label) asks() string {
	if l.whole != "" {
		return l.whole
	}
	return l.short
}

// by returns what a sentence adds of the workload: " by TCP x8 64 KiB".
func (l label) by() string {
	if l.whole != "" {
		return ""
	}
	return " by " + strings.TrimSpace(l.short+" "+l.variant)
}

// labelArms returns the labels of a result's arms. Different arms have different full names, if
// their names in the result differ. The labels of a result that has them as its names are the same.
func labelArms(r bench.Result) []label {
	paths := namePaths(r)
	out := make([]label, len(r.Arms))
	for i, a := range r.Arms {
		q := askedBy(a.Workload)
		out[i] = label{path: paths[i], short: q.short, variant: q.variant}
		if a.Path.Network == "" {
			out[i].whole = a.Name
		}
	}
	tellApart(out, func(i int) string { return paths[i] + ", " + describeLoad(r.Arms[i].Workload) })
	tellApart(out, func(i int) string { return r.Arms[i].Name })
	return out
}

// tellApart replaces each label that another arm has too.
func tellApart(labels []label, by func(int) string) {
	count := map[string]int{}
	for _, l := range labels {
		count[l.full()]++
	}
	for i, l := range labels {
		if count[l.full()] > 1 {
			labels[i].whole = by(i)
		}
	}
}

// namePaths names the paths of each arm in as few words as keep different paths apart: the network,
// with the kinds of ends, the place, the interfaces.
func namePaths(r bench.Result) []string {
	parts := []func(bench.Path) string{
		func(p bench.Path) string { return p.Network },
		func(p bench.Path) string { return p.Network + " " + p.Ends },
		func(p bench.Path) string { return p.Network + " " + p.Ends + " " + p.Place },
		func(p bench.Path) string {
			return p.Network + " " + p.Ends + " " + p.From.Interface + "-" + p.To.Interface + describeRelay(p.Via)
		},
		func(p bench.Path) string {
			return namePath(p) + " " + describeEnd(p.From) + " to " + describeEnd(p.To) + describeRelay(p.Via)
		},
	}
	var names []string
	for _, name := range parts {
		of, alike := map[string]string{}, false
		names = names[:0]
		for _, a := range r.Arms {
			s, is := strings.TrimSpace(name(a.Path)), identifyPaths(a)
			alike = alike || of[s] != "" && of[s] != is
			of[s] = is
			names = append(names, s)
		}
		if !alike {
			break
		}
	}
	return names
}

// question has the arms that answer one question, in the order of the result.
type question struct {
	Title   string
	Presets []string // M4: the reports' figures that its arms repeat
	Arms    []int
}

// Heading is the title with the presets, for a text.
func (q question) Heading() string {
	if len(q.Presets) == 0 {
		return q.Title
	}
	return q.Title + " (" + strings.Join(q.Presets, " ") + ")"
}

var presetName = regexp.MustCompile(`^m\d{1,2}$`)

// listQuestions returns the questions of a result, that of the sentence first. r has the names of the
// result, which have the presets. No preset is in two questions.
func listQuestions(r bench.Result, best *bench.Pair) []question {
	var out []question
	seen := map[string]bool{}
	for i, title := range titleArms(r) {
		at := slices.IndexFunc(out, func(q question) bool { return q.Title == title })
		if at < 0 {
			at = len(out)
			out = append(out, question{Title: title})
		}
		out[at].Arms = append(out[at].Arms, i)
		for _, p := range listPresets(r, r.Arms[i]) {
			if !seen[p] {
				seen[p] = true
				out[at].Presets = append(out[at].Presets, p)
			}
		}
	}
	if best != nil {
		at := slices.IndexFunc(out, func(q question) bool { return slices.Contains(q.Arms, best.Arm) })
		first := out[at]
		out = slices.Insert(slices.Delete(out, at, at+1), 0, first)
	}
	return out
}

// listPresets returns the presets of an arm, in capital letters. Where a result has one preset, its
// arms are not named for it.
func listPresets(r bench.Result, a bench.Arm) []string {
	all := strings.Fields(r.Preset)
	var out []string
	for _, word := range strings.Fields(a.Name) {
		if presetName.MatchString(word) && slices.Contains(all, word) {
			out = append(out, strings.ToUpper(word))
		}
	}
	if len(all) == 1 && presetName.MatchString(all[0]) && out == nil {
		out = []string{strings.ToUpper(all[0])}
	}
	return out
}

// titleArms returns the title of each arm's question. If one question was asked with several
// workloads, the titles have these too.
func titleArms(r bench.Result) []string {
	loads := map[string]map[bench.Workload]bool{}
	for _, a := range r.Arms {
		q := askedBy(a.Workload)
		if loads[q.long] == nil {
			loads[q.long] = map[bench.Workload]bool{}
		}
		loads[q.long][q.load] = true
	}
	var out []string
	for _, a := range r.Arms {
		q := askedBy(a.Workload)
		if len(loads[q.long]) > 1 {
			q.long += " (" + describeLoad(q.load) + ")"
		}
		out = append(out, q.long)
	}
	return out
}

// withLabels returns the result with the report's names for its arms, also in its notes and beside
// printed figures. A note of a preset begins with the question instead: "m6: ...".
func withLabels(r bench.Result) bench.Result {
	var old []string
	labels := labelArms(r)
	names, first := map[string]string{}, map[string]string{}
	for i, a := range r.Arms {
		old, names[a.Name] = append(old, a.Name), labels[i].full()
		for _, p := range listPresets(r, a) {
			if first[p] == "" {
				first[p] = askedBy(a.Workload).short
			}
		}
	}
	slices.SortFunc(old, func(a, b string) int { return len(b) - len(a) }) // the longest first: some begin with others
	r.Arms, r.Printed, r.Notes = slices.Clone(r.Arms), slices.Clone(r.Printed), slices.Clone(r.Notes)
	for i := range r.Arms {
		r.Arms[i].Name = labels[i].full()
	}
	for i, f := range r.Printed {
		if name, found := names[f.Arm]; found {
			r.Printed[i].Arm = name
		}
		if name, found := names[f.Base]; found {
			r.Printed[i].Base = name
		}
	}
	for i, note := range r.Notes {
		head, rest, cut := strings.Cut(note, ": ")
		switch name, preset := names[head], first[strings.ToUpper(head)]; {
		case cut && name != "":
			r.Notes[i] = name + ": " + rest
		case cut && preset != "" && presetName.MatchString(head):
			r.Notes[i] = preset + ": " + rest
		}
	}
	return r
}

// asked is the question that a workload answers.
type asked struct {
	long    string         // "How much does one TCP stream carry?"
	short   string         // "TCP", in names of arms
	variant string         // "64 KiB", what sets a workload apart from others of the question
	load    bench.Workload // without the variant and the seconds
}

// askedBy returns the question of a workload.
func askedBy(w bench.Workload) asked {
	q := nameQuestion(w)
	var parts []string
	add := func(is bool, format string, args ...any) {
		if is {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(w.Size > 0 && w.Kind != bench.Packets, "%s", formatSize(w.Size))
	add(w.Flows == 1, "1 flow")
	add(w.Flows > 1, "%d flows", w.Flows)
	add(w.Senders > 1, "%d senders", w.Senders)
	add(w.RateLimit > 0, "%d Mb/s", w.RateLimit)
	add(w.Burst > 1, "bursts of %d", w.Burst)
	add(w.Load > 0, "beside TCP of %s", formatPercent(w.Load))
	add(w.Reverse, "back")
	q.variant = strings.Join(parts, " ")
	if w.Flows > 0 { // many flows of packets are from many addresses
		w.Sources = 0
	}
	w.Flows, w.Senders, w.RateLimit, w.Burst, w.Load, w.Reverse, w.Seconds = 0, 0, 0, 0, 0, false, 0
	if q.load = w; w.Kind != bench.Packets {
		q.load.Size = 0
	}
	return q
}

// nameQuestion returns the question of a workload in words.
func nameQuestion(w bench.Workload) asked {
	tcp, carry := "TCP", "does one TCP stream"
	if w.Streams > 1 {
		tcp, carry = fmt.Sprintf("TCP x%d", w.Streams), fmt.Sprintf("do %d TCP streams", w.Streams)
	}
	switch {
	case w.Pulled:
		return asked{long: "Does traffic stop when the cable is pulled?", short: "cable pulled"}
	case w.RateLimit > 0:
		return asked{long: "Does the VF keep to its rate limit?", short: "limit"}
	case w.Kind == bench.Stream && w.Size > 0:
		return asked{long: "How much " + carry + " carry, by the size of writes?", short: tcp}
	case w.Kind == bench.Stream:
		return asked{long: "How much " + carry + " carry?", short: tcp}
	case w.Kind == bench.Datagram:
		return asked{long: "How much does UDP carry?", short: "UDP"}
	case w.Kind == bench.Packets:
		return namePackets(w)
	case w.Kind == bench.Echo:
		return asked{long: "How long does a ping take?", short: "pings"}
	case w.Kind == bench.Connect:
		return asked{long: "How many new connections are answered?", short: "connections"}
	case w.UDP:
		return asked{long: "How long does an answer over UDP take?", short: "UDP questions"}
	}
	return asked{long: "How long does an answer over TCP take?", short: "questions"}
}

// namePackets returns the question of a workload of small packets.
func namePackets(w bench.Workload) asked {
	size := ""
	if w.Size > 0 {
		size = " of " + formatSize(w.Size)
	}
	switch {
	case w.Senders > 1:
		return asked{long: "How many packets" + size + " arrive from several senders at once?", short: "packets"}
	case w.Flows > 0:
		return asked{long: "How many packets" + size + " arrive in one flow, and in many?", short: "packets"}
	case w.MACs > 0:
		return asked{long: "How many packets" + size + " arrive from many MAC addresses?", short: "packets"}
	case w.Sources > 0:
		return asked{long: "How many packets" + size + " arrive from many addresses?", short: "packets"}
	}
	return asked{long: "How many packets" + size + " arrive?", short: "packets"}
}

package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func names(jobs []job) string {
	var all []string
	for _, j := range jobs {
		all = append(all, j.name)
	}
	return strings.Join(all, " ")
}

// A job with all slots waits for the others, and only spare jobs run beside it.
func TestScheduleAllSlots(t *testing.T) {
	for _, slots := range []int{1, 2} {
		s, err := newSchedule([]job{{name: "first", slots: 1}, {name: "wide", slots: allSlots}, {name: "spare", spare: true}, {name: "last", slots: 1, needs: []string{"first"}}}, room{slots: slots})
		if err != nil {
			t.Fatal(err)
		}
		got := names(s.startReady())
		s.endJob("first", true)
		if got += ", " + names(s.startReady()); got != "first spare, wide" {
			t.Errorf("%d slots: %s", slots, got)
		}
		s.endJob("wide", true)
		if got := names(s.startReady()); got != "last" {
			t.Errorf("%d slots, in the end: %s", slots, got)
		}
	}
}

// The cores are busy as long as there are jobs: if a job does not fit or waits for
// another job, the jobs below it may start.
func TestScheduleFillsTheMachine(t *testing.T) {
	s, err := newSchedule([]job{
		{name: "build", slots: 1},
		{name: "parts"},
		{name: "long", slots: 1, nodes: 4, needs: []string{"build"}},
		{name: "many", slots: 1, nodes: 3, needs: []string{"build"}},
		{name: "few", slots: 1, nodes: 1, needs: []string{"build", "parts"}},
		{name: "unit", spare: true},
		{name: "fuzz", spare: true},
		{name: "short", slots: 1},
		{name: "measure", slots: alone, nodes: 4, needs: []string{"parts"}},
		{name: "again", slots: alone},
	}, room{slots: 2, nodes: 6})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ ends, starts string }{
		{"", "build parts unit short"},
		{"build", "long"}, // the nodes of many do not fit beside long
		{"short", ""},     // few waits for parts
		{"parts", "few"},  // parts took no slot
		{"unit", "fuzz"},  // one spare job after the other
		{"few", ""},       // a slot is free, but not three nodes
		{"long", "many"},  // now they are free
		{"many", ""},      // fuzz runs, and takes no slot
		{"fuzz", "measure"},
		{"measure", "again"},
		{"again", ""},
	} {
		if step.ends != "" {
			s.endJob(step.ends, true)
		}
		if got := names(s.startReady()); got != step.starts {
			t.Errorf("after %s: starts %q, want %q", step.ends, got, step.starts)
		}
	}
	if !s.isOver() {
		t.Errorf("it is not over: %v", s.states)
	}
}

// If a job fails, the jobs that need it do not run. All others run.
func TestScheduleAfterAFailure(t *testing.T) {
	s, err := newSchedule([]job{
		{name: "build", slots: 1}, {name: "image", slots: 1, needs: []string{"build"}},
		{name: "lab", slots: 1, needs: []string{"image"}}, {name: "unit", slots: 1},
	}, room{slots: 1})
	if err != nil {
		t.Fatal(err)
	}
	if got := names(s.startReady()); got != "build" {
		t.Errorf("starts %q", got)
	}
	s.endJob("build", false)
	if got := names(s.startReady()); got != "unit" {
		t.Errorf("after the failure: starts %q", got)
	}
	s.endJob("unit", true)
	if got := names(s.startReady()); got != "" || !s.isOver() {
		t.Errorf("at the end: starts %q, %v", got, s.states)
	}
	want := map[string]state{"build": failed, "image": skipped, "lab": skipped, "unit": passed}
	if diff := cmp.Diff(want, s.states); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestScheduleRefuses(t *testing.T) {
	for want, jobs := range map[string][]job{
		"job a takes 3 slots and 0 nodes, and this machine has room for 2 and 4": {{name: "a", slots: 3}},
		"job a takes 0 slots and 5 nodes, and this machine has room for 2 and 4": {{name: "a", nodes: 5}},
		"job a needs b, which is not above it":                                   {{name: "a", needs: []string{"b"}}, {name: "b"}},
	} {
		if _, err := newSchedule(jobs, room{2, 4}); err == nil || err.Error() != want {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestJobs checks the list of jobs: it can run on the smallest machine, and every
// level is a target of the Makefile.
func TestJobs(t *testing.T) {
	if _, err := newSchedule(jobs, smallest); err != nil {
		t.Error(err)
	}
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	targets := regexp.MustCompile(`(?m)^(test-[^:]*):`).FindAllString(string(makefile), -1)
	for i, j := range jobs {
		if slices.ContainsFunc(jobs[:i], func(o job) bool { return o.name == j.name }) {
			t.Errorf("two jobs have the name %s", j.name)
		}
		if !strings.Contains(" "+strings.ReplaceAll(strings.Join(targets, " "), ":", " "), " test-"+j.level+" ") {
			t.Errorf("the Makefile has no target test-%s, but %q", j.level, targets)
		}
	}
	for levels, want := range map[string]string{
		"unit":            "parts unit unit-plain unit-seeds failure memory fuzz fuzz-all unit-bench",
		"lab":             "build image lab-host lab-node lab-guests lab-e2e lab-bench",
		"lint kubernetes": "build image parts lint kubernetes kubernetes-1.34 kubernetes-calico kubernetes-tasks kubernetes-crio",
		"":                names(jobs),
	} {
		got, err := chooseJobs(jobs, strings.Fields(levels))
		if names(got) != want || err != nil {
			t.Errorf("levels %q: %q, %v, want %q", levels, names(got), err, want)
		}
	}
	if _, err := chooseJobs(jobs, []string{"unit", "labs"}); err == nil || !strings.Contains(err.Error(), `"labs"`) {
		t.Errorf("a level that is not there: %v", err)
	}
}

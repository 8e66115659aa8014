package compat

import (
	"embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:embed *.yaml
var files embed.FS

// Group is the cases of one kind of input.
type Group struct {
	Name string `yaml:"-"`
	// Title names the kind of the inputs.
	Title string `yaml:"title"`
	// Peer is the project whose outcome counts, and its version.
	Peer string `yaml:"peer"`
	// Least is the least number of cases in the group.
	Least int `yaml:"least"`
	// Floor is the number of cases that must have the peer's outcome. It only rises: raise it
	// in the change that makes more cases the same.
	Floor int `yaml:"floor"`
	// Ran is the test that runs the peer's own code on the cases without a source; empty: none does.
	Ran   string `yaml:"ran"`
	Cases []Case `yaml:"cases"`

	run runner
}

// Case is one input with the outcome of the peer.
type Case struct {
	Name string `yaml:"name"`
	// From is the repository and the path in it that show the outcome.
	From string `yaml:"from"`
	// Source is the file of the peer and the function in it that decide the outcome, of a case
	// whose outcome was read there and not run. Another repository stands before the file.
	Source string    `yaml:"source"`
	Input  yaml.Node `yaml:"input"`
	Peer   Outcome   `yaml:"peer"`
	// Different says why Culvert's outcome is another on purpose.
	Different string `yaml:"different"`
}

// Outcome describes the effect of an input in words: one line for each network, pool or pod.
type Outcome []string

// Refused is the outcome of an input that the project does not accept.
const Refused = "refused"

// UnmarshalYAML reads one line or a list of them.
func (o *Outcome) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*o = Outcome{n.Value}
		return nil
	}
	return n.Decode((*[]string)(o))
}

func (o Outcome) String() string { return strings.Join(o, "; ") }

// runner gives an input to Culvert. It returns an error if Culvert refuses the input.
type runner func(input *yaml.Node) (Outcome, error)

// Verdict compares Culvert's outcome with the peer's.
type Verdict string

// Verdicts.
const (
	Same      Verdict = "same"
	Different Verdict = "deliberately different"
	NotYet    Verdict = "not yet"
)

// Result is a case with Culvert's outcome.
type Result struct {
	Case
	Got     Outcome
	Verdict Verdict
	// Why is Culvert's reason for a refusal.
	Why string
}

// runners has the groups, by the name of their file.
var runners = []struct {
	name string
	run  runner
}{
	{"networks", tryNetwork},
	{"annotations", tryAnnotation},
	{"deviceplugin", devicePlugin},
	{"host-local", tryAddresses},
	{"static", tryAddresses},
	{"whereabouts", tryAddresses},
}

// Groups reads all cases.
func Groups() ([]Group, error) {
	var out []Group
	for _, r := range runners {
		text, err := files.ReadFile(r.name + ".yaml")
		if err != nil {
			return nil, err
		}
		g := Group{Name: r.name, run: r.run}
		dec := yaml.NewDecoder(strings.NewReader(string(text)))
		dec.KnownFields(true)
		if err := dec.Decode(&g); err != nil {
			return nil, fmt.Errorf("%s.yaml: %w", r.name, err)
		}
		if err := g.checkCases(); err != nil {
			return nil, fmt.Errorf("%s.yaml: %w", r.name, err)
		}
		out = append(out, g)
	}
	return out, nil
}

// sourceForm matches Case.Source: the repository unless it is the peer's, the file and the function.
var sourceForm = regexp.MustCompile(`^([\w.-]+/[\w.-]+ )?[\w./-]+\.go \w+$`)

// checkCases refuses cases that have the same name or input, and those that were not run and do not
// say where their outcome was read.
func (g Group) checkCases() error {
	var errs []error
	names, inputs := map[string]bool{}, map[string]string{}
	for _, c := range g.Cases {
		text, err := yaml.Marshal(&c.Input)
		switch {
		case c.Name == "" || names[c.Name]:
			err = fmt.Errorf("case %q: the name is missing or there twice", c.Name)
		case len(c.Peer) == 0:
			err = fmt.Errorf("case %q: peer: missing", c.Name)
		case len(strings.Fields(c.From)) < 2 || !strings.Contains(c.From, "/"):
			err = fmt.Errorf("case %q: from: want owner/repository and a path", c.Name)
		case (g.Ran == "" || c.Source != "") && !sourceForm.MatchString(c.Source):
			err = fmt.Errorf("case %q: source: want the file and the function that decide, such as pkg/config/config.go LoadConf", c.Name)
		case inputs[string(text)] != "":
			err = fmt.Errorf("case %q has the input of case %q", c.Name, inputs[string(text)])
		}
		errs = append(errs, err)
		names[c.Name], inputs[string(text)] = true, c.Name
	}
	return errors.Join(errs...)
}

// Run gives every case to Culvert.
func (g Group) Run() []Result {
	var out []Result
	for _, c := range g.Cases {
		r := Result{Case: c, Verdict: NotYet}
		got, err := g.run(&c.Input)
		if err != nil {
			got, r.Why = Outcome{Refused}, err.Error()
		}
		r.Got = got
		switch {
		case slices.Equal(got, c.Peer):
			r.Verdict = Same
		case c.Different != "":
			r.Verdict = Different
		}
		out = append(out, r)
	}
	return out
}

// CountRead returns how many cases have an outcome that was read in the peer's code, and not run.
func (g Group) CountRead() (n int) {
	for _, c := range g.Cases {
		if c.Source != "" {
			n++
		}
	}
	return n
}

// Count returns how many results have a verdict.
func Count(results []Result, v Verdict) int {
	n := 0
	for _, r := range results {
		if r.Verdict == v {
			n++
		}
	}
	return n
}

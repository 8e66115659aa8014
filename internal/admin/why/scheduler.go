package why

import (
	"regexp"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
)

// insufficient is a part of the scheduler's message about a resource: the number of nodes that have
// too little of it (kube-scheduler, plugin NodeResourcesFit).
var insufficient = regexp.MustCompile(`^\d+ Insufficient (\S+)$`)

// schedulerCauses returns the scheduler's message, without resources that are explained already.
func (f Facts) schedulerCauses(explained []string) []api.Cause {
	all := f.eventCauses("FailedScheduling")
	if len(all) == 0 {
		if c, found := findCondition(f.Pod.Status.Conditions, "PodScheduled"); found && c.Status == "False" && c.Reason != "SchedulingGated" {
			all = []api.Cause{{Source: "scheduler", Text: c.Message, Since: c.LastTransitionTime}}
		}
	}
	var out []api.Cause
	for _, c := range all {
		if c.Text = cutExplained(c.Text, explained); c.Text != "" {
			c.Source = "scheduler"
			c.Next = "kubectl -n " + f.Pod.Metadata.Namespace + " describe pod " + f.Pod.Metadata.Name
			out = append(out, c)
		}
	}
	return out
}

// isInsufficient reports whether the scheduler has found too little of a resource.
func (f Facts) isInsufficient(resource string) bool {
	causes := f.eventCauses("FailedScheduling")
	if c, found := findCondition(f.Pod.Status.Conditions, "PodScheduled"); found {
		causes = append(causes, api.Cause{Text: c.Message})
	}
	return slices.ContainsFunc(causes, func(c api.Cause) bool {
		return regexp.MustCompile(`\d+ Insufficient ` + regexp.QuoteMeta(resource) + `([ .,]|$)`).MatchString(c.Text)
	})
}

// cutExplained returns the scheduler's message, such as
// "0/3 nodes are available: 1 node(s) had untolerated taint {a: }, 2 Insufficient culvert.dev/fast.
// preemption: ...". It leaves out the parts about preemption and claims, and those about explained
// resources. It returns "" if nothing else is in it.
func cutExplained(message string, explained []string) string {
	message, _, _ = strings.Cut(message, " preemption:")
	message = strings.TrimSuffix(message, " no new claims to deallocate,") // of plugin DynamicResources
	head, list, found := strings.Cut(strings.TrimSuffix(strings.TrimSpace(message), "."), ": ")
	if !found {
		return message
	}
	parts := slices.DeleteFunc(strings.Split(list, ", "), func(part string) bool {
		m := insufficient.FindStringSubmatch(strings.TrimSuffix(part, "."))
		return len(m) == 2 && slices.Contains(explained, m[1])
	})
	if len(parts) == 0 {
		return ""
	}
	return head + ": " + strings.Join(parts, ", ")
}

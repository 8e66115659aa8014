package daemon

import (
	"maps"
	"slices"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/journal"
)

// troubles are the things of a node that are not as they should be, as its
// readers are told of them: the object, and what is wrong with it.
type troubles map[string]trouble

type trouble struct {
	begins, ends string // reasons of the events
	text         string
}

// add adds what is wrong with an object, which may be several things.
func (t troubles) add(object string, what trouble) {
	if other, ok := t[object]; ok && other.text != what.text {
		what.text = other.text + "; " + what.text
	}
	t[object] = what
}

// troublesOf are the VFs in quarantine and what is wished and not done.
func troublesOf(n api.NodeStatus, undone []api.Problem) troubles {
	out := troubles{}
	for _, v := range n.VFs {
		if v.Phase != string(journal.Quarantined) {
			continue
		}
		text := "it is in quarantine, nobody gets it: " + v.Reason
		if v.Owner != nil && !v.Owner.IsZero() {
			text += "; last held by " + v.Owner.String()
		}
		out.add("VF "+v.Name+" ("+v.PCI.String()+")", trouble{"Quarantined", "Recovered", text})
	}
	for _, p := range undone {
		out.add(p.Object, trouble{"NotAsWanted", "AsWanted", p.Reason})
	}
	return out
}

// news are the events that tell what changed from one look to the next: what
// stays as it was is no news.
func news(before, now troubles, tell func(kind, reason, text string)) {
	for _, object := range slices.Sorted(maps.Keys(now)) {
		if t := now[object]; before[object].text != t.text {
			tell(journal.Warning, t.begins, object+": "+t.text)
		}
	}
	for _, object := range slices.Sorted(maps.Keys(before)) {
		if _, still := now[object]; !still {
			tell(journal.Normal, before[object].ends, object+": that is over: "+before[object].text)
		}
	}
}

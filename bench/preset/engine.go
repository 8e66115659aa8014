package preset

import (
	"fmt"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/engine"
)

// chooseEngine takes Culvert's own engine if the report's cannot run, and returns a note of that.
func chooseEngine(w bench.Workload, h Here) (_ bench.Workload, note string) {
	why := h.lacksEngine(w.Engine)
	if why == "" {
		return w, ""
	}
	note = fmt.Sprintf("%s, which the report used, cannot run at both ends (%s): Culvert's own engine sends the same instead", w.Engine, why)
	if w.Kind == bench.Echo {
		w.Kind, w.UDP, w.Size = bench.Request, true, 64
		note += ", as datagrams of 64 bytes between two programs: a program has to be woken for each, which ICMP needs not"
	}
	w.Engine = engine.Own
	return w, note
}

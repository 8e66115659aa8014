package api

import "time"

// DoctorReport has the findings of `culvert doctor`, in the form of its -o json.
type DoctorReport struct {
	Node     string    `json:"node"`
	Version  string    `json:"version"` // of the culvert program that ran the checks
	Time     time.Time `json:"time"`
	Summary  Summary   `json:"summary"`
	Findings []Finding `json:"findings"`
	// Repairs are the repairs by --fix, in order; null without --fix.
	Repairs []Repair `json:"repairs"`
}

// Summary counts findings by severity.
type Summary struct {
	OK       int `json:"ok"`
	Notes    int `json:"notes"`
	Warnings int `json:"warnings"`
	Errors   int `json:"errors"`
}

// Severity is how much a finding matters.
type Severity string

// Severities, the worst last. Warnings and errors make the exit status 1.
const (
	SeverityOK      Severity = "ok"
	SeverityNote    Severity = "note"    // worth knowing, no fault
	SeverityWarning Severity = "warning" // works, and costs something or will fail one day
	SeverityError   Severity = "error"   // does not work
)

// Finding is the result of one check by the doctor.
type Finding struct {
	// Check names the check by one word: root, sriov, ports, link, numa, mtu, path, interrupts,
	// queues, arguments, iommu, modules, claims, culvertd, limits, ledger, cni, libvirt, kubernetes,
	// isolation; of a guest: guest, virtio, hugepages, pinning, placement, memlock, spread.
	Check    string   `json:"check"`
	Severity Severity `json:"severity"`
	Object   string   `json:"object"` // "host", "PF enp1s0f0", "NIC 0000:00:03.0"
	What     string   `json:"what"`
	Why      string   `json:"why,omitempty"` // why it matters
	// Mend has the commands to run or the text to write, one line each.
	Mend []string `json:"mend,omitempty"`
	// Fixable is set if --fix can make the repair.
	Fixable bool `json:"fixable,omitempty"`
}

// Repair is one change that `culvert doctor --fix` made or could not make.
type Repair struct {
	What string `json:"what"`
	Done bool   `json:"done"`
	// Found is the value that was read back afterwards.
	Found string `json:"found,omitempty"`
	Error string `json:"error,omitempty"`
	Undo  string `json:"undo,omitempty"` // a command
}

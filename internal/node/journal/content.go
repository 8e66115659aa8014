package journal

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/node/journal/pages"
	"github.com/culvert-net/culvert/internal/vf"
)

// Content is the readable content of a ledger's file.
type Content struct {
	Format    string
	Boot      string // ID of the boot under which it was last used
	Records   []Record
	Addresses []Address
	Last      map[string][]netip.Addr // by network, given out lately
	Grants    []Grant
	PFLeases  []PFLease
	Events    []Event // nil in the content of an open ledger: Tx.Events has them
	Sandboxes []Sandbox
	Fresh     map[string]vf.Admin // by PF, its settings for VFs that were just made

	// Faults has the reasons why the file as a whole cannot be trusted. culvertd then refuses to
	// open it, and the other fields may be incomplete.
	Faults []Fault
	// Damage has the damaged entries that are neither in Records nor in Addresses.
	Damage []Problem

	digest [sha256.Size]byte // of the file as Inspect read it

	doubts []Problem // found by VerifySandboxes
	free   int64     // unused bytes of the file
	newer  string    // what shows that a newer culvertd wrote it
	large  bool      // an entry exceeds the size that is read
	own    bool      // some page, in use or not, has an entry in culvertd's format
	hints  map[vf.ID]Record
}

// Fault is one thing that is wrong with the file as a whole.
type Fault string

// Newer reports whether a newer culvertd wrote the file: its format, or a field of an entry, is not
// known here. Such a file has no other fault, and must not be changed.
func (c Content) Newer() bool { return c.newer != "" }

// Mendable reports whether Mend would change anything. Mend does not change VFs that a repair has
// marked as lost: they stay so until culvertd takes them over.
func (c Content) Mendable() bool {
	lost := func(r Record) bool { return r.Phase != vf.PhaseDamaged || strings.HasPrefix(r.Reason, lostMark) }
	whole := func(a Address) bool { return a.Damage == "" }
	for _, p := range Verify(c.Records, c.Addresses) {
		if p.Invariant == "I4" {
			return true
		}
	}
	return len(c.Faults)+len(c.Damage) > 0 || !containsOnly(c.Records, lost) || !containsOnly(c.Addresses, whole)
}

func containsOnly[T any](list []T, is func(T) bool) bool {
	return !slices.ContainsFunc(list, func(v T) bool { return !is(v) })
}

// Problems returns all problems, the worst first.
func (c Content) Problems() []Problem {
	var out []Problem
	means := "culvertd does not open it, since something may be missing from it"
	if c.Newer() {
		means = "culvertd does not open it: only the newer one may change it"
	}
	for _, f := range c.Faults {
		out = append(out, Problem{Object: "file", What: string(f), Means: means})
	}
	out = append(out, c.Damage...)
	return append(append(out, Verify(c.Records, c.Addresses)...), c.doubts...)
}

// Inspect reads a ledger's file without changing it, damaged or not. Errors: fs.ErrNotExist,
// ErrBusy, ErrDamaged for a path that is no regular file, and ErrForeign for a file that was
// never a ledger.
func Inspect(path string) (c Content, err error) {
	err = readFile(path, func(source pages.Source) error {
		c, err = inspectContent(path, source)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return Content{}, fmt.Errorf("ledger %s: %w: culvertd makes one when it starts", path, fs.ErrNotExist)
	}
	if err != nil {
		return Content{}, fmt.Errorf("ledger %s: %w", path, err)
	}
	return c, nil
}

// inspectContent digests the file before it reads the content: after a change in between, Write
// finds another digest.
func inspectContent(path string, source pages.Source) (Content, error) {
	digest := digestFile(source)
	c, file := readContent(source, decodeEvents)
	c.digest = digest
	return c, c.checkOrigin(path, source, file)
}

// Read reads the content of a ledger's file, with all events. Apart from these its memory does not
// depend on the file's size: it reads pages one by one, and keeps only an outline of large sandboxes.
func Read(source pages.Source) Content {
	c, _ := readContent(source, decodeEvents)
	return c
}

// eventReader is decodeEvents, or checkEvents or skipEvents for a caller without use for the events.
type eventReader func(entries) ([]Event, []Problem)

func readContent(source pages.Source, events eventReader) (Content, *pages.File) {
	c := Content{Fresh: map[string]vf.Admin{}}
	file := pages.Read(source)
	if source.Size() == 0 {
		c.addFault("it is empty (0 bytes), and a ledger never is: it was cut short or overwritten")
		return c, file
	}
	for _, f := range file.Faults {
		c.addFault("%s", f)
	}
	c.findStrangeBuckets(file.Buckets)
	c.free, c.large = file.Free*int64(file.PageSize), file.Largest > pages.MaxValue
	of := func(bucket []byte) entries { return file.Items(string(bucket)) }
	c.readMeta(of(bucketMeta))
	if c.Newer() {
		c.refuseNewer()
		return c, file
	}
	c.decodeEntries(of, decoders{c.decodeRecord, c.decodeAddress, c.decodeSandbox, events})
	if c.Newer() {
		c.refuseNewer()
		return c, file
	}
	if len(file.Faults) == 0 {
		c.checkTotal(of)
	}
	if len(c.Faults) > 0 || !containsOnly(c.Records, func(r Record) bool { return r.Phase != vf.PhaseDamaged }) {
		c.readLeftovers(file)
	}
	return c, file
}

// listedStrange is how many unknown buckets, and unknown entries about itself, are named of a file that
// is no ledger.
const listedStrange = 20

// findStrangeBuckets reports buckets that no ledger has.
func (c *Content) findStrangeBuckets(names []string) {
	strange := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return slices.ContainsFunc(buckets, func(b []byte) bool { return string(b) == name })
	})
	for i, name := range strange {
		if i == listedStrange {
			c.addFault("it has %d more buckets that no ledger has", len(strange)-i)
			return
		}
		c.addFault("it has a bucket %s, which no ledger has", excerpt.Quote(name))
	}
}

// decoders decode the entries of three buckets, and read those of a fourth.
type decoders struct {
	record  func(key, stored []byte) (Record, error)
	address func(key, stored []byte) (Address, error)
	sandbox func(key, stored []byte) (Sandbox, error)
	events  eventReader
}

// decodeEntries decodes the entries of all buckets but the one about the ledger itself.
func (c *Content) decodeEntries(of func(bucket []byte) entries, decode decoders) {
	var damaged [7][]Problem
	c.Records, damaged[0] = decodeRecords(of(bucketRecords), 0, decode.record)
	c.Addresses, damaged[1] = decodeAddresses(of(bucketAddresses), 0, decode.address)
	c.Last, damaged[2] = decodeLast(of(bucketLast))
	c.Events, damaged[3] = decode.events(of(bucketEvents))
	c.Sandboxes, damaged[4], c.doubts = decodeSandboxes(of(bucketSandboxes), decode.sandbox)
	c.Grants, damaged[5] = decodeGrants(of(bucketLast), openLast)
	c.PFLeases, damaged[6] = decodePFLeases(of(bucketLast))
	c.Damage = append(c.Damage, slices.Concat(damaged[:]...)...)
}

func (c *Content) addFault(format string, args ...any) {
	c.Faults = append(c.Faults, Fault(fmt.Sprintf(format, args...)))
}

// freshKeyOf returns key itself when it is a key of Fresh.
func freshKeyOf(key string) string {
	if _, err := vf.ParsePFID(strings.TrimPrefix(key, freshPrefix)); err != nil || !strings.HasPrefix(key, freshPrefix) {
		return freshPrefix
	}
	return key
}

// readMeta reads the format and the boot. An error there is a fault of the whole file: with a wrong
// boot ID culvertd would forget every lease.
func (c *Content) readMeta(all entries) {
	values, strange := map[string][]byte{}, 0
	for key, stored := range all {
		k := string(key)
		if k == "boot" || k == "format" || k == "total" || k == freshKeyOf(k) {
			values[k] = bytes.Clone(stored)
		} else if strange++; strange <= listedStrange { // a crafted file may have gigabytes of others
			values[k] = nil
		}
	}
	have, err := unsealEntry(bucketMeta, keyFormat, values["format"])
	if err == nil {
		c.Format = string(have)
	}
	switch {
	case values["format"] == nil && len(c.Faults) > 0: // the format is on a page that cannot be read
	case values["format"] == nil:
		c.addFault("it does not say its format, as every ledger does")
	case err != nil:
		c.addFault("its format, %q: %s", have, err)
	case c.Format != format:
		c.noteNewer("its format is %s, and this culvertd reads format %s", excerpt.Quote(c.Format), format)
		return
	}
	for key, stored := range values {
		body, err := unsealEntry(bucketMeta, []byte(key), stored)
		switch key {
		case "boot":
			if err != nil {
				c.addFault("the ID of its boot, %q: %s", body, err)
				continue
			}
			c.Boot = string(body)
		case "format", "total":
		case freshKeyOf(key):
			admin, err := openExact[vf.Admin](c, "entry", bucketMeta, []byte(key), stored)
			if err != nil {
				c.Damage = append(c.Damage, newDamage("VFs that are taken over may keep what the driver gives to new ones otherwise",
					"entry "+key, "it is damaged: %s", err))
				continue
			}
			c.Fresh[key[len(freshPrefix):]] = admin
		default:
			c.addFault("it has an entry %s about itself, which no ledger has", excerpt.Quote(key))
		}
	}
	if strange > listedStrange {
		c.addFault("it has %d more entries about itself that no ledger has", strange-listedStrange)
	}
}

// checkTotal compares the entries with the total. It finds entries that are missing, are of an
// earlier time, or have another key. A damaged value does not change the total; its seal shows
// the damage.
func (c *Content) checkTotal(of func(bucket []byte) entries) {
	var have total
	var stored []byte
	for _, bucket := range buckets {
		for key, value := range of(bucket) {
			if isTotal(bucket, key) {
				stored = bytes.Clone(value)
				continue
			}
			have.addEntry(bucket, key, value)
		}
	}
	body, err := unsealEntry(bucketMeta, keyTotal, stored)
	want, parseErr := parseTotal(string(body))
	switch {
	case err != nil || parseErr != nil:
		c.addFault("the total of its entries, %q: %s", body, cmp.Or(err, parseErr))
	case want.Entries != have.Entries:
		c.addFault("it has %d entries, and had %d when it was written", have.Entries, want.Entries)
	case want.Sum != have.Sum:
		c.addFault("some of its entries are not those that were written: their sum is wrong")
	}
}

func isTotal(bucket, key []byte) bool {
	return string(bucket) == string(bucketMeta) && string(key) == string(keyTotal)
}

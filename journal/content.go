package journal

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/journal/pages"
	"github.com/culvert-net/culvert/vf"
)

// Content is what is in a ledger's file, as far as it can be read.
type Content struct {
	Format    string
	Boot      string // ID of the boot under which it was last used
	Records   []Record
	Addresses []Address
	Last      map[string][]netip.Addr // by network, given out lately
	Events    []Event
	Sandboxes []Sandbox
	Fresh     map[string]vf.Admin // by PF, what its VFs are like when they are made

	// Faults are why the file as a whole cannot be trusted: culvertd does not
	// open it. Something may be missing from the other fields.
	Faults []Fault
	// Damage are single entries that cannot be trusted, beyond those that are
	// among Records and Addresses as damaged.
	Damage []Problem

	doubts []Problem // of VerifySandboxes
	free   int64     // bytes of the file that nothing is in
	large  bool      // an entry is larger than what is read
	own    bool      // an entry on some page, in use or not, is as culvertd writes entries
	hints  map[vf.ID]Record
}

// Fault is one thing that is wrong with the file as a whole.
type Fault string

// Newer reports whether the file is of a format that this culvertd does not
// know: nothing is known to be wrong with it, and nothing may be changed in it.
func (c Content) Newer() bool { return c.Format != "" && c.Format != "1" && c.Format != format }

// Mendable reports whether Mend makes anything of it that it is not already: a
// VF that a repair marked as lost stays so until culvertd takes it over.
func (c Content) Mendable() bool {
	lost := func(r Record) bool { return r.Phase != Damaged || strings.HasPrefix(r.Reason, lostMark) }
	whole := func(a Address) bool { return a.Damage == "" }
	for _, p := range Verify(c.Records, c.Addresses) {
		if p.Invariant == "I4" {
			return true
		}
	}
	return len(c.Faults)+len(c.Damage) > 0 || !all(c.Records, lost) || !all(c.Addresses, whole)
}

func all[T any](list []T, is func(T) bool) bool {
	return !slices.ContainsFunc(list, func(v T) bool { return !is(v) })
}

// Problems are all that is wrong, the worst first.
func (c Content) Problems() []Problem {
	var out []Problem
	for _, f := range c.Faults {
		out = append(out, Problem{Object: "file", What: string(f), Means: "culvertd does not open it, since something may be missing from it"})
	}
	out = append(out, c.Damage...)
	return append(append(out, Verify(c.Records, c.Addresses)...), c.doubts...)
}

// Inspect reads a ledger's file without changing it, damaged or not. Errors:
// fs.ErrNotExist, ErrBusy, ErrDamaged for what is no file, and ErrForeign for a file
// that was never a ledger.
func Inspect(path string) (c Content, err error) {
	err = readFile(path, func(source pages.Source) error {
		c, err = inspect(path, source)
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

func inspect(path string, source pages.Source) (Content, error) {
	c, file := read(source)
	return c, c.checkOrigin(path, source, file)
}

// Read reads the content of a ledger's file. The memory that it needs does not depend on
// the file's size: pages are read one by one, and of large sandboxes an outline is kept.
func Read(source pages.Source) Content {
	c, _ := read(source)
	return c
}

func read(source pages.Source) (Content, *pages.File) {
	c := Content{Fresh: map[string]vf.Admin{}}
	file := pages.Read(source)
	if source.Size() == 0 {
		c.fault("it is empty (0 bytes), and a ledger never is: it was cut short or overwritten")
		return c, file
	}
	for _, f := range file.Faults {
		c.fault("%s", f)
	}
	for _, name := range file.Buckets {
		if !slices.ContainsFunc(buckets, func(b []byte) bool { return string(b) == name }) {
			c.fault("it has a bucket %q, which no ledger has", name)
		}
	}
	c.free, c.large = file.Free*int64(file.PageSize), file.Largest > pages.MaxValue
	of := func(bucket []byte) entries { return file.Items(string(bucket)) }
	sealed := c.meta(of(bucketMeta))
	if !sealed {
		of = resealed(of)
	}
	c.decode(of, decodeRecord, decodeAddress)
	if sealed && len(file.Faults) == 0 {
		c.total(of)
	}
	if len(c.Faults) > 0 || !all(c.Records, func(r Record) bool { return r.Phase != Damaged }) {
		c.leftovers(file)
	}
	return c, file
}

// decode decodes the entries of all buckets but the one about the ledger itself.
func (c *Content) decode(of func(bucket []byte) entries, record func(key, stored []byte) (Record, error), address func(key, stored []byte) (Address, error)) {
	var damaged [5][]Problem
	c.Records, damaged[0] = decodeRecords(of(bucketRecords), record)
	c.Addresses, damaged[1] = decodeAddresses(of(bucketAddresses), address)
	c.Last, damaged[2] = decodeLast(of(bucketLast))
	c.Events, damaged[3] = decodeEvents(of(bucketEvents))
	c.Sandboxes, damaged[4], c.doubts = decodeSandboxes(of(bucketSandboxes))
	c.Damage = append(c.Damage, slices.Concat(damaged[:]...)...)
}

func (c *Content) fault(format string, args ...any) {
	c.Faults = append(c.Faults, Fault(fmt.Sprintf(format, args...)))
}

// resealed reads entries of format 1, which have no seal, as if they had.
func resealed(of func([]byte) entries) func([]byte) entries {
	return func(bucket []byte) entries {
		return func(yield func([]byte, []byte) bool) {
			for key, body := range of(bucket) {
				if !yield(key, seal(bucket, key, body)) {
					return
				}
			}
		}
	}
}

// freshKeyOf is key itself when it is one of Fresh.
func freshKeyOf(key string) string {
	if _, err := vf.ParsePFID(strings.TrimPrefix(key, freshPrefix)); err != nil || !strings.HasPrefix(key, freshPrefix) {
		return freshPrefix
	}
	return key
}

// meta reads the format and the boot, and says whether the entries are sealed.
// Nothing there may be wrong: with another boot ID every lease would be
// forgotten.
func (c *Content) meta(all entries) (sealed bool) {
	values := map[string][]byte{}
	for key, stored := range all {
		values[string(key)] = bytes.Clone(stored)
	}
	if string(values["format"]) == "1" {
		c.Format, c.Boot = "1", string(values["boot"])
		return false
	}
	have, err := unseal(bucketMeta, keyFormat, values["format"])
	if err == nil {
		c.Format = string(have)
	}
	switch {
	case values["format"] == nil && len(c.Faults) > 0: // on a page that cannot be read
	case values["format"] == nil:
		c.fault("it does not say its format, as every ledger does")
	case err != nil:
		c.fault("its format, %q: %s", have, err)
	case c.Format != format:
		c.fault("its format is %q, this culvertd reads %q and 1: a newer culvertd wrote it", c.Format, format)
	}
	for key, stored := range values {
		body, err := unseal(bucketMeta, []byte(key), stored)
		switch key {
		case "boot":
			if err != nil {
				c.fault("the ID of its boot, %q: %s", body, err)
				continue
			}
			c.Boot = string(body)
		case "format", "total":
		case freshKeyOf(key):
			admin, err := open[vf.Admin](bucketMeta, []byte(key), stored)
			if err != nil {
				c.Damage = append(c.Damage, damage("VFs that are taken over may keep what the driver gives to new ones otherwise",
					"entry "+key, "it is damaged: %s", err))
				continue
			}
			c.Fresh[key[len(freshPrefix):]] = admin
		default:
			c.fault("it has an entry %q about itself, which no ledger has", key)
		}
	}
	return true
}

// total compares what is there with what should be. It tells of entries that
// have gone, came back from an earlier time, or stand under another key; a value
// that was damaged disturbs nothing here, and its seal tells of it.
func (c *Content) total(of func(bucket []byte) entries) {
	var have total
	var stored []byte
	for _, bucket := range buckets {
		for key, value := range of(bucket) {
			if isTotal(bucket, key) {
				stored = bytes.Clone(value)
				continue
			}
			have.add(bucket, key, value)
		}
	}
	body, err := unseal(bucketMeta, keyTotal, stored)
	want, parseErr := parseTotal(string(body))
	switch {
	case err != nil || parseErr != nil:
		c.fault("the total of its entries, %q: %s", body, cmp.Or(err, parseErr))
	case want.Entries != have.Entries:
		c.fault("it has %d entries, and had %d when it was written", have.Entries, want.Entries)
	case want.Sum != have.Sum:
		c.fault("some of its entries are not those that were written: their sum is wrong")
	}
}

func isTotal(bucket, key []byte) bool {
	return string(bucket) == string(bucketMeta) && string(key) == string(keyTotal)
}

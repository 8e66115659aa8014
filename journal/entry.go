package journal

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/culvert-net/culvert/journal/pages"
)

// An entry of the file is a key and a sealed value: JSON (plain text in
// bucketMeta), "#" and eight hexadecimal digits, the CRC-32C of the bucket, the
// key and the JSON. bbolt has no checksums of its own, so without the seal one
// flipped bit could change a VLAN or an owner unseen. Format 1 had none.

const sealLength = len("#01234567")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(bucket, key, body []byte) string {
	h := crc32.New(castagnoli)
	for _, part := range [][]byte{bucket, {0}, key, {0}, body} {
		_, _ = h.Write(part)
	}
	return fmt.Sprintf("%08x", h.Sum32())
}

// seal returns what is stored for body.
func seal(bucket, key, body []byte) []byte {
	out := make([]byte, 0, len(body)+sealLength)
	return append(append(append(out, body...), '#'), checksum(bucket, key, body)...)
}

// unseal returns the body of a stored value.
func unseal(bucket, key, stored []byte) ([]byte, error) {
	if len(stored) > pages.MaxValue {
		return nil, fmt.Errorf("it has more than %d bytes, which culvertd does not read", pages.MaxValue)
	}
	at := len(stored) - sealLength
	if at < 0 || stored[at] != '#' {
		return stored, fmt.Errorf("it is not whole: its checksum is missing")
	}
	if body := stored[:at]; string(stored[at+1:]) == checksum(bucket, key, body) {
		return body, nil
	}
	return stored[:at], fmt.Errorf("something in it was changed: its checksum is wrong")
}

// open decodes a stored value.
func open[T any](bucket, key, stored []byte) (v T, err error) {
	body, err := unseal(bucket, key, stored)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return v, fmt.Errorf("it cannot be read: %w", err)
	}
	return v, nil
}

// total is over all entries but itself: how many there are, and the sum of
// their digests. It tells that an entry has gone, or is one of an earlier time,
// which no seal can.
type total struct {
	Entries int
	Sum     uint64
}

func (t total) String() string { return fmt.Sprintf("%d %016x", t.Entries, t.Sum) }

func parseTotal(s string) (t total, err error) {
	entries, sum, _ := strings.Cut(s, " ")
	if t.Entries, err = strconv.Atoi(entries); err == nil {
		t.Sum, err = strconv.ParseUint(sum, 16, 64)
	}
	return t, err
}

// add counts an entry once more; sub once less.
func (t *total) add(bucket, key, stored []byte) {
	t.Entries++
	t.Sum += digest(bucket, key, stored)
}

func (t *total) sub(bucket, key, stored []byte) {
	t.Entries--
	t.Sum -= digest(bucket, key, stored)
}

// digest is of an entry's key and seal. An entry whose body was damaged keeps
// its digest: its seal tells of it, and the total tells of the others.
func digest(bucket, key, stored []byte) uint64 {
	h := fnv.New64a()
	for _, part := range [][]byte{bucket, {0}, key, {0}, stored[max(0, len(stored)-sealLength):]} {
		_, _ = h.Write(part)
	}
	return h.Sum64()
}

func seqKey(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }

// seqOf is 0 for what is no key of an event.
func seqOf(key []byte) uint64 {
	if len(key) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(key)
}

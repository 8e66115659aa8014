package journal

// keepEvents is how many events stay; older ones go.
const keepEvents = 1000

// Event adds an event and drops the oldest past the bound. Its number is one
// more than the last one's.
func (t *Tx) Event(e Event) error {
	c := t.tx.Bucket(bucketEvents).Cursor()
	last, _ := c.Last()
	e.Seq, e.Time = seqOf(last)+1, t.now
	if e.Seq > keepEvents {
		bound := string(seqKey(e.Seq - keepEvents))
		for k, _ := c.First(); k != nil && string(k) <= bound; k, _ = c.First() {
			if err := t.del(bucketEvents, k); err != nil {
				return err
			}
		}
	}
	return t.put(bucketEvents, seqKey(e.Seq), e)
}

// Events returns the events after a sequence number, oldest first.
func (t *Tx) Events(after uint64) []Event {
	events, _ := decodeEvents(t.from(bucketEvents, seqKey(after+1)))
	return events
}

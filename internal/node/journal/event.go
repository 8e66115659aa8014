package journal

// keepEvents is how many events the ledger keeps; it drops older ones.
const keepEvents = 1000

// Event adds an event, with the next sequence number, and drops the oldest if there are more than
// keepEvents.
func (t *Tx) Event(e Event) error {
	c := t.tx.Bucket(bucketEvents).Cursor()
	last, _ := c.Last()
	e.Seq, e.Time = seqOf(last)+1, t.now
	if e.Seq > keepEvents {
		bound := string(seqKey(e.Seq - keepEvents))
		for k, _ := c.First(); k != nil && string(k) <= bound; k, _ = c.First() {
			if err := t.deleteEntry(bucketEvents, k); err != nil {
				return err
			}
		}
	}
	return t.putJSON(bucketEvents, seqKey(e.Seq), e)
}

// Events returns the events after a sequence number, oldest first.
func (t *Tx) Events(after uint64) []Event {
	events, _ := decodeEvents(t.entriesFrom(bucketEvents, seqKey(after+1)))
	return events
}

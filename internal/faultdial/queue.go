package faultdial

import "time"

// maxQueued is how many bytes wait in a queue before its writer has to wait too, as with a
// full window of TCP.
const maxQueued = 1 << 20

// An item is one element of a queue: bytes, or the end of its direction.
type item struct {
	data []byte
	end  error     // why no more follows; for the requests: anything but nil
	at   time.Time // when it was sent or, on its way to this process, arrived
}

// A queue has what is under way in one direction of a connection. It is guarded by the
// mutex of that.
type queue struct {
	items []item
	bytes int
	ended bool // the last item has an end
}

func (q *queue) empty() bool { return len(q.items) == 0 }
func (q *queue) full() bool  { return q.bytes >= maxQueued }

// push adds a copy of data, or the end.
func (q *queue) push(data []byte, end error) {
	q.items = append(q.items, item{append([]byte(nil), data...), end, time.Now()})
	q.bytes += len(data)
	q.ended = end != nil
}

// pushFront puts back what could not be written.
func (q *queue) pushFront(data []byte) {
	q.items = append([]item{{data: append([]byte(nil), data...)}}, q.items...) // due since long
	q.bytes += len(data)
}

// pop takes the first item out.
func (q *queue) pop() item {
	it := q.items[0]
	q.items[0] = item{} // so that its bytes can be collected
	q.items = q.items[1:]
	q.bytes -= len(it.data)
	return it
}

// read takes bytes out of the first item.
func (q *queue) read(b []byte) int {
	first := &q.items[0]
	n := copy(b, first.data)
	first.data = first.data[n:]
	q.bytes -= n
	if len(first.data) == 0 {
		q.pop()
	}
	return n
}

// drop removes the bytes that came after a moment, and reports whether there were any. The
// end stays.
func (q *queue) drop(after time.Time) (dropped bool) {
	kept := q.items[:0]
	for _, it := range q.items {
		if it.end == nil && it.at.After(after) {
			q.bytes -= len(it.data)
			dropped = true
			continue
		}
		kept = append(kept, it)
	}
	clear(q.items[len(kept):])
	q.items = kept
	return dropped
}

func (q *queue) clear() { *q = queue{} }

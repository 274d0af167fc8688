package hostel

import (
	"net/url"
	"strings"
	"time"
)

// rememberedMessages is how many ids of messages a stream remembers.
const rememberedMessages = 10_000

// recent remembers which messages were given out lately. Of what was forgotten it knows the latest time, so that nobody
// asks for anything older again.
type recent struct {
	limit     int
	times     map[string]time.Time
	order     []string
	first     int
	forgotten time.Time
}

func newRecent(limit int) *recent {
	return &recent{limit: limit, times: map[string]time.Time{}}
}

// add remembers a message; false if it was known.
func (r *recent) add(id, at string) bool {
	if _, known := r.times[id]; known {
		return false
	}
	// A time nobody can read is as good as none.
	when, _ := time.Parse(time.RFC3339, at)
	r.times[id] = when
	if len(r.order) < r.limit {
		r.order = append(r.order, id)
		return true
	}
	oldest := r.order[r.first]
	if gone := r.times[oldest]; gone.After(r.forgotten) {
		r.forgotten = gone
	}
	delete(r.times, oldest)
	r.order[r.first] = id
	r.first = (r.first + 1) % r.limit
	return true
}

// readFrom is from when on the inbox is to be read: what a gap names, but nothing that was given out and forgotten.
// Empty: from the beginning.
func readFrom(resume string, forgotten time.Time) string {
	_, text, _ := strings.Cut(resume, "?")
	// A query nobody can read names nothing.
	query, _ := url.ParseQuery(text)
	since := query.Get("since")
	if forgotten.IsZero() {
		return since
	}
	after := forgotten.Add(time.Millisecond)
	if when, err := time.Parse(time.RFC3339, since); err == nil && !when.Before(after) {
		return since
	}
	return after.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

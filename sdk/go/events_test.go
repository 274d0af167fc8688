package hostel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func takeEvents(t *testing.T, stream *EventStream, count int) []Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	var taken []Event
	for len(taken) < count {
		event, err := stream.Next(ctx)
		if err != nil {
			t.Fatal(len(taken), err)
		}
		taken = append(taken, event)
	}
	return taken
}

// told is what events are, in short: the message's id or the name, the place, and whether it was read from the inbox.
func told(events []Event) []string {
	var all []string
	for _, event := range events {
		what := event.Name
		if message := event.Message(); message != nil {
			what = message.ID
		}
		all = append(all, fmt.Sprintf("%s %s %t", what, event.ID, event.Recovered))
	}
	return all
}

func TestBlocksComeOutWholeHoweverTheirBytesAreCut(t *testing.T) {
	text := ": connected\n\nid: a-1\nevent: message\ndata: {\"x\":\"ä\"}\n\n: keepalive\n\nid: a-2\n\ndata:one\ndata: two\r\n\r\n"
	want := []block{{id: "a-1", name: "message", data: `{"x":"ä"}`, hasID: true, hasData: true}, {id: "a-2", name: "message", hasID: true}, {name: "message", data: "one\ntwo", hasData: true}}
	for _, reader := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text)), iotest.HalfReader(strings.NewReader(text))} {
		blocks := newBlockReader(reader)
		for _, expected := range want {
			if got, err := blocks.next(); err != nil || got != expected {
				t.Fatal(got, err)
			}
		}
		if _, err := blocks.next(); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
	endless := newBlockReader(io.LimitReader(zeros{}, longestEvent*2))
	if _, err := endless.next(); !errors.Is(err, ProtocolError) {
		t.Fatal(err)
	}
}

type zeros struct{}

func (zeros) Read(into []byte) (int, error) { clear(into); return len(into), nil }

func TestWhatWasGivenOutIsRemembered(t *testing.T) {
	remembered := newRecent(2)
	if !remembered.add("a", "2026-01-01T00:00:01.000Z") || remembered.add("a", "") || !remembered.forgotten.IsZero() {
		t.Fatal(remembered)
	}
	remembered.add("b", "2026-01-01T00:00:02.000Z")
	remembered.add("c", "2026-01-01T00:00:03.000Z")
	for _, row := range [][3]string{
		{"/v1/inbox?since=2026-01-01T00%3A00%3A00.000Z", "", "2026-01-01T00:00:00.000Z"},
		{"/v1/inbox?since=2026-01-01T00:00:00.000Z", "x", "2026-01-01T00:00:01.001Z"},
		{"/v1/inbox?since=2026-01-01T00:00:09.000Z", "x", "2026-01-01T00:00:09.000Z"},
		{"/v1/inbox", "", ""},
	} {
		forgotten := remembered.forgotten
		if row[1] == "" {
			forgotten = time.Time{}
		}
		if got := readFrom(row[0], forgotten); got != row[2] {
			t.Fatal(row, got)
		}
	}
}

func TestALostStreamGoesOnAfterTheLastEvent(t *testing.T) {
	daemon := newFakeDaemon(t).listen()
	daemon.inTurn(streams("a-0", false), streams("a-0", false, messageBlock("a-1", "m1"), messageBlock("a-2", "m2")),
		streams("a-2", true, messageBlock("a-2", "m2"), messageBlock("b-3", "m3")))
	stream, err := daemon.mesh().Events(context.Background(), EventOptions{Events: []string{EventMessage}, Topic: "alerts"})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if got := stream.LastEventID(); got != "a-0" {
		t.Fatal(got)
	}
	got := told(takeEvents(t, stream, 3))
	if !slices.Equal(got, []string{"m1 a-1 false", "m2 a-2 false", "m3 b-3 false"}) || stream.LastEventID() != "b-3" {
		t.Fatal(got)
	}
	var places []string
	for _, request := range daemon.requests() {
		places = append(places, request.header.Get("Last-Event-ID"))
	}
	if !slices.Equal(places, []string{"", "a-0", "a-2"}) {
		t.Fatal(places)
	}
	if query := daemon.requests()[0].query; query.Get("events") != "message" || query.Get("topic") != "alerts" {
		t.Fatal(query)
	}
}

func TestAfterAGapTheInboxIsReadAndNothingComesTwice(t *testing.T) {
	row := func(id string) map[string]any {
		return map[string]any{"id": id, "received_at": "2026-01-01T00:00:05.000Z", "body": id}
	}
	gap := "event: gap\ndata: {\"from\":\"a-1\",\"resume\":\"/v1/inbox?since=2026-01-01T00:00:00.000Z\"}\n\n"
	daemon := newFakeDaemon(t).listen()
	opened := 0
	daemon.answer = func(w http.ResponseWriter, a asked) {
		switch {
		case a.path == "/v1/inbox" && a.query.Get("cursor") == "next":
			says(200, map[string]any{"items": []any{row("m3")}, "next": nil})(w, a)
		case a.path == "/v1/inbox":
			says(200, map[string]any{"items": []any{row("m1"), row("m2")}, "next": "next"})(w, a)
		case opened == 0:
			opened++
			streams("a-0", false, messageBlock("a-1", "m1"))(w, a)
		default:
			streams("b-7", true, gap, messageBlock("b-8", "m3"), messageBlock("b-9", "m4"))(w, a)
		}
	}
	stream, err := daemon.mesh().Events(context.Background(), EventOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	got := told(takeEvents(t, stream, 5))
	if !slices.Equal(got, []string{"m1 a-1 false", "gap  false", "m2  true", "m3  true", "m4 b-9 false"}) {
		t.Fatal(got)
	}
	for _, request := range daemon.requests() {
		query := request.query
		if request.path == "/v1/inbox" && (query.Get("order") != "oldest" || query.Get("mark_seen") != "false" || query.Get("since") != "2026-01-01T00:00:00.000Z") {
			t.Fatal(query)
		}
	}
}

func TestTheFirstOpeningTellsARefusalLaterOnesArePatient(t *testing.T) {
	full := says(429, map[string]any{"error": "too_many_streams"}, "Retry-After", "0")
	daemon := newFakeDaemon(t).listen()
	daemon.inTurn(full, streams("a-0", false), full, streams("a-0", false, messageBlock("a-1", "m1")), says(503, map[string]any{"error": "member_revoked"}))
	if _, err := daemon.mesh().Events(context.Background(), EventOptions{}); !errors.Is(err, Code("too_many_streams")) {
		t.Fatal(err)
	}
	stream, err := daemon.mesh().Events(context.Background(), EventOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	var got []string
	stream.All()(func(event Event, err error) bool {
		if err != nil {
			got = append(got, err.Error())
		} else {
			got = append(got, event.ID)
		}
		return true
	})
	if !slices.Equal(got, []string{"a-1", "member_revoked (member_revoked)"}) {
		t.Fatal(got)
	}
}

func TestAStreamEndsWithItsContextAndWhenItIsClosed(t *testing.T) {
	daemon := newFakeDaemon(t).listen()
	daemon.answer = streams("a-0", true, messageBlock("a-1", "m1"))
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := daemon.mesh().Events(ctx, EventOptions{})
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	stream.All()(func(_ Event, err error) bool {
		if err != nil {
			t.Error(err)
		}
		count++
		cancel()
		return true
	})
	if _, err := stream.Next(context.Background()); count != 1 || !errors.Is(err, context.Canceled) {
		t.Fatal(count, err)
	}
	stream, err = daemon.mesh().Events(context.Background(), EventOptions{})
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	takeEvents(t, stream, 1)
	if _, err := stream.Next(gone); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := stream.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Next(context.Background()); !errors.Is(err, StreamClosed) {
		t.Fatal(err)
	}
}

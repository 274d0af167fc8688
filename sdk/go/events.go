package hostel

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// A keepalive comes every 15 s: after this long a connection is taken for dead.
	silence = 45 * time.Second
	// Messages of one page that are read after a gap.
	recoveryPage = 200
)

// Event is something that happened.
type Event struct {
	// ID is its place; empty for a gap and for what was read from the inbox.
	ID string `json:"id"`
	// Name is one of the Event constants, or one of a later daemon's.
	Name string `json:"name"`
	// Data is as it came; Value and Message have it typed.
	Data json.RawMessage `json:"data"`
	// Recovered: it was read from the inbox after a gap.
	Recovered bool `json:"-"`
}

// Value is the data as a pointer to the struct for events of this name, such as *PeerEvent; nil for a name that is not
// known here, or data that is something else.
func (e Event) Value() any {
	value := newEvent(e.Name)
	if value == nil || json.Unmarshal(e.Data, value) != nil {
		return nil
	}
	return value
}

// Message is the message that came; nil for every other event.
func (e Event) Message() *MessageEvent {
	message, _ := e.Value().(*MessageEvent)
	return message
}

// EventOptions say what a stream is to give.
type EventOptions struct {
	// Events: only these; all if there are none.
	Events []string
	// Topic: only those of this topic.
	Topic string
	// LastEventID: go on after this place, the ID of the last event that was dealt with in an earlier run.
	LastEventID string
}

// EventStream gives events as they come. Each comes once and in the daemon's order: a lost connection is made again and
// goes on after the last event. Where the daemon no longer knows that place, it says so with an event EventGap, and the
// messages that came meanwhile are read from the inbox, each once.
type EventStream struct {
	mesh   *Mesh
	query  url.Values
	topic  string
	wants  bool
	ctx    context.Context
	cancel context.CancelCauseFunc
	items  chan placed
	done   chan struct{}
	// Set before done is closed.
	err    error
	failed bool

	mutex sync.Mutex
	given string

	// What follows belongs to the goroutine that reads.
	place  string
	begin  string
	recent *recent
	pauses *backoff
}

// placed is an event with the place that is reached once it was taken.
type placed struct {
	event Event
	place string
}

// Events opens a stream: what happens from then on is not missed. It lasts until Close, or until the context ends.
func (m *Mesh) Events(ctx context.Context, options EventOptions) (*EventStream, error) {
	query := url.Values{}
	if len(options.Events) > 0 {
		query.Set("events", strings.Join(options.Events, ","))
	}
	if options.Topic != "" {
		query.Set("topic", options.Topic)
	}
	inner, cancel := context.WithCancelCause(ctx)
	s := &EventStream{
		mesh: m, query: query, topic: options.Topic, ctx: inner, cancel: cancel,
		wants: len(options.Events) == 0 || slices.Contains(options.Events, EventMessage),
		items: make(chan placed), done: make(chan struct{}),
		place: options.LastEventID, recent: newRecent(rememberedMessages),
		pauses: newBackoff(100*time.Millisecond, 5*time.Second),
	}
	body, err := s.connect()
	if err != nil {
		cancel(nil)
		return nil, err
	}
	s.given = s.place
	go s.run(body)
	return s, nil
}

// LastEventID is where the stream is, as far as events were taken: keep it to go on from here in another run.
func (s *EventStream) LastEventID() string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.given
}

// Next waits for the next event. It fails once the stream has ended; that ctx has ended leaves the stream as it is.
func (s *EventStream) Next(ctx context.Context) (Event, error) {
	select {
	case item := <-s.items:
		s.reached(item.place)
		return item.event, nil
	case <-s.done:
		return Event{}, s.err
	case <-ctx.Done():
		return Event{}, ctx.Err()
	}
}

// All gives every event until the stream is closed or its context ends, for range; an error is the last it gives.
func (s *EventStream) All() func(yield func(Event, error) bool) {
	return func(yield func(Event, error) bool) {
		for {
			event, err := s.Next(context.Background())
			if err != nil {
				if s.failed {
					yield(Event{}, err)
				}
				return
			}
			if !yield(event, nil) {
				return
			}
		}
	}
}

// Close ends the stream.
func (s *EventStream) Close() error {
	s.cancel(&ConnectionError{Code: StreamClosed})
	<-s.done
	return nil
}

func (s *EventStream) reached(place string) {
	if place == "" {
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.given = place
}

// run reads until the stream is closed, or cannot go on.
func (s *EventStream) run(body io.ReadCloser) {
	defer close(s.done)
	for {
		err := s.follow(body)
		if err == nil {
			body, err = s.reconnect()
		}
		if s.ctx.Err() != nil {
			s.err = context.Cause(s.ctx)
			return
		}
		if err != nil {
			s.err = err
			s.failed = true
			// Frees what the context holds.
			s.cancel(err)
			return
		}
	}
}

func (s *EventStream) connect() (io.ReadCloser, error) {
	ctx, cancel := context.WithCancelCause(s.ctx)
	late := time.AfterFunc(s.mesh.timeout, func() { cancel(&ConnectionError{Code: Timeout}) })
	header := map[string]string{"Accept": "text/event-stream"}
	if s.place != "" {
		header["Last-Event-ID"] = s.place
	}
	response, _, err := s.mesh.transport.open(ctx, request{method: "GET", path: "/v1/events", query: s.query, header: header})
	if err == nil && response.StatusCode != http.StatusOK {
		var body []byte
		body, err = readAnswer(ctx, response)
		response.Body.Close()
		if err == nil {
			err = refusal(answer{status: response.StatusCode, retryAfter: retryAfter(response), body: body})
		}
	}
	late.Stop()
	if err != nil {
		cancel(nil)
		return nil, err
	}
	s.begin = response.Header.Get("Last-Event-ID")
	if s.place == "" {
		s.place = s.begin
	}
	return &attended{body: response.Body, cancel: cancel}, nil
}

// reconnect connects again, for as long as it takes.
func (s *EventStream) reconnect() (io.ReadCloser, error) {
	for {
		if err := sleep(s.ctx, s.pauses.pause()); err != nil {
			return nil, err
		}
		body, err := s.connect()
		if err == nil {
			return body, nil
		}
		var refused *MeshError
		var lost *ConnectionError
		switch {
		case errors.As(err, &lost):
		case errors.As(err, &refused) && (refused.Status == 429 || refused.Status == 503) && refused.Code != "member_revoked":
			if err := sleep(s.ctx, max(refused.RetryAfter, 0)); err != nil {
				return nil, err
			}
		default:
			return nil, err
		}
	}
}

// follow gives out what comes over one connection, until that is lost.
func (s *EventStream) follow(body io.ReadCloser) error {
	defer body.Close()
	blocks := newBlockReader(body)
	for {
		found, err := blocks.next()
		if err != nil {
			var bad *ConnectionError
			if errors.As(err, &bad) && bad.Code == ProtocolError {
				return err
			}
			return nil
		}
		s.pauses.reset()
		again, err := s.take(found)
		if err != nil || again {
			return err
		}
	}
}

// take gives out what a block holds; true if the connection has to be made again.
func (s *EventStream) take(found block) (bool, error) {
	if !found.hasData {
		s.place = found.id
		return false, nil
	}
	begin := s.begin
	s.begin = ""
	event := Event{ID: found.id, Name: found.name, Data: json.RawMessage(found.data)}
	if !json.Valid(event.Data) {
		return false, &ConnectionError{Code: ProtocolError, Err: errors.New("an event is no JSON")}
	}
	if event.Name == EventGap {
		return s.gap(event, begin)
	}
	if found.hasID {
		s.place = found.id
	}
	if event.Name == EventMessage {
		var message struct{ ID, TS string }
		if json.Unmarshal(event.Data, &message) == nil && !s.recent.add(message.ID, message.TS) {
			return false, nil
		}
	}
	return false, s.give(event, s.place)
}

func (s *EventStream) give(event Event, place string) error {
	select {
	case s.items <- placed{event, place}:
		return nil
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

// gap gives out the messages that were missed; true if the daemon went away meanwhile.
func (s *EventStream) gap(event Event, begin string) (bool, error) {
	if err := s.give(event, ""); err != nil {
		return false, err
	}
	var told GapEvent
	if err := json.Unmarshal(event.Data, &told); err != nil {
		return false, &ConnectionError{Code: ProtocolError, Err: err}
	}
	no := false
	query := InboxQuery{Order: "oldest", MarkSeen: &no, Limit: recoveryPage, Topic: s.topic}
	query.Since = readFrom(told.Resume, s.recent.forgotten)
	for s.wants {
		page, err := s.mesh.Inbox(s.ctx, query)
		var lost *ConnectionError
		if errors.As(err, &lost) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		for _, item := range page.Items {
			if !s.recent.add(item.ID, item.ReceivedAt) {
				continue
			}
			data, err := json.Marshal(asEvent(item))
			if err == nil {
				err = s.give(Event{Name: EventMessage, Data: data, Recovered: true}, "")
			}
			if err != nil {
				return false, err
			}
		}
		if page.Next == nil {
			break
		}
		query.Cursor = *page.Next
	}
	// The old place is of no use any more; what came before this one has been read.
	if begin != "" {
		s.place = begin
		s.reached(begin)
	}
	return false, nil
}

// asEvent is a row of the inbox in the words of an event. The inbox does not say which member a session's key belongs to.
func asEvent(item InboxItem) MessageEvent {
	return MessageEvent{
		TS: item.ReceivedAt, ID: item.ID, Mesh: item.Mesh, Kind: item.Kind, ClientMessageID: item.ClientMessageID,
		BrokerMessageID: item.BrokerMessageID, SenderPubkey: item.SenderPubkey, SenderMemberID: item.SenderMemberID,
		SenderName: item.SenderName, Topic: item.Topic, ReplyToID: item.ReplyToID, Priority: item.Priority, Body: item.Body,
		Meta: item.Meta, Mentions: item.Mentions, Mention: item.Mention, CreatedAt: item.CreatedAt,
		RecipientPubkey: item.RecipientPubkey, RecipientKind: item.RecipientKind, RecipientSession: item.RecipientSession,
		DecryptError: item.DecryptError, File: item.File,
	}
}

// attended is a body that is taken for lost when nothing comes for too long while somebody waits for it.
type attended struct {
	body   io.ReadCloser
	cancel context.CancelCauseFunc
}

func (a *attended) Read(into []byte) (int, error) {
	late := time.AfterFunc(silence, func() { a.cancel(&ConnectionError{Code: ConnectionLost}) })
	defer late.Stop()
	return a.body.Read(into)
}

func (a *attended) Close() error {
	a.cancel(nil)
	return a.body.Close()
}

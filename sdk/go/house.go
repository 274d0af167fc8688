package hostel

import (
	"context"
	"errors"
	"sync"
	"time"
)

// HouseOptions say how a house is found and spoken to. Nothing has to be said.
type HouseOptions struct {
	// Home is the house's directory; else HOSTEL_HOME, else ~/.hostel.
	Home string
	// Socket is the house's socket itself.
	Socket string
	// Timeout is how long a request may take, repetitions included; default 30 s.
	Timeout time.Duration
	// Getenv instead of os.Getenv.
	Getenv func(string) string
}

// House is a house, through its socket on this machine: agent sessions, their turns and their questions.
//
// A prompt is never put to an agent twice: what may have reached the house is not repeated. What only asks is.
type House struct {
	socket  string
	timeout time.Duration

	mutex      sync.Mutex
	connection *rpcConn
}

// NewHouse makes a client that asks nobody yet; ConnectHouse also makes sure that a house answers.
func NewHouse(options HouseOptions) (*House, error) {
	socket, err := findHouse(options)
	if err != nil {
		return nil, err
	}
	timeout := options.Timeout
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	return &House{socket: socket, timeout: timeout}, nil
}

// ConnectHouse finds the house and greets it.
func ConnectHouse(ctx context.Context, options HouseOptions) (*House, error) {
	house, err := NewHouse(options)
	if err != nil {
		return nil, err
	}
	if _, err := house.Initialize(ctx); err != nil {
		return nil, err
	}
	return house, nil
}

// Initialize tells what the house says about itself.
func (h *House) Initialize(ctx context.Context) (*Initialized, error) {
	connection, err := h.connected(ctx)
	if err != nil {
		return nil, err
	}
	greeting := connection.greeting
	return &greeting, nil
}

// Close ends the connection; the next request makes a new one. Sessions go on.
func (h *House) Close() error {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.connection != nil {
		h.connection.close()
		h.connection = nil
	}
	return nil
}

// Agents lists the agents that can be asked for.
func (h *House) Agents(ctx context.Context) ([]Agent, error) {
	var list AgentList
	err := h.ask(ctx, "agents/list", nil, &list, true)
	return list.Agents, err
}

// Sessions lists live sessions; with All also archived and killed ones.
func (h *House) Sessions(ctx context.Context, query SessionListParams) ([]SessionInfo, error) {
	var list SessionList
	err := h.ask(ctx, "session/list", query, &list, true)
	return list.Sessions, err
}

// CreateSession makes a session, takes over a live one or brings an archived one back (SessionID).
func (h *House) CreateSession(ctx context.Context, params SessionNewParams) (*Session, error) {
	var made SessionMade
	// With a name of its own it is the same session, however often it is asked for.
	if err := h.ask(ctx, "session/new", params, &made, params.SessionID != ""); err != nil {
		return nil, err
	}
	return &Session{ID: made.SessionID, Made: &made, house: h}, nil
}

// Session is a session that is there, by its id. Nobody is asked.
func (h *House) Session(id string) *Session { return &Session{ID: id, house: h} }

// Call asks for any method of the house's protocol and reads its result. It is repeated after a lost connection only if
// it has reached nobody.
func (h *House) Call(ctx context.Context, method string, params, result any) error {
	return h.ask(ctx, method, params, result, false)
}

func (h *House) connected(ctx context.Context) (*rpcConn, error) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.connection != nil && h.connection.isOpen() {
		return h.connection, nil
	}
	connection, err := dialHouse(ctx, h.socket, false)
	if err != nil {
		return nil, err
	}
	h.connection = connection
	return connection, nil
}

func (h *House) ask(ctx context.Context, method string, params, result any, repeatable bool) error {
	deadline := time.Now().Add(h.timeout)
	if given, ok := ctx.Deadline(); ok && given.Before(deadline) {
		deadline = given
	}
	inner, cancel := context.WithDeadlineCause(ctx, deadline, &ConnectionError{Code: Timeout})
	defer cancel()
	pauses := newBackoff(50*time.Millisecond, 2*time.Second)
	for {
		connection, err := h.connected(inner)
		if err == nil {
			err = connection.call(inner, method, params, result)
		}
		var lost *ConnectionError
		again := errors.As(err, &lost) && lost.Code != Timeout && lost.Code != ProtocolError && (repeatable || lost.Unsent)
		pause := pauses.pause()
		if err == nil || !again || ctx.Err() != nil || !time.Now().Add(pause).Before(deadline) {
			return err
		}
		if sleep(inner, pause) != nil {
			return context.Cause(inner)
		}
	}
}

// Session is one agent session. It lives in the house: leaving it alone does not end it.
type Session struct {
	ID string
	// Made is how it was made; nil for one that was named by its id.
	Made  *SessionMade
	house *House
}

// Send puts a prompt in line. Once it returns, the prompt is on disk and is put to the agent exactly once.
func (s *Session) Send(ctx context.Context, prompt string) (*PromptSent, error) {
	return askSession[PromptSent](ctx, s, "session/send", SessionSendParams{SessionID: s.ID, Prompt: prompt}, false)
}

// PromptOptions say who hears what happens while a prompt is worked on.
type PromptOptions struct {
	// OnUpdate hears every update of the turn.
	OnUpdate func(Update)
	// OnApproval decides what the agent asks; without it somebody else has to.
	OnApproval func(context.Context, Update) (Decision, error)
}

// Prompt puts a prompt in line and waits for the end of its turn, also across a restart of the house. The turn goes on
// if ctx ends before it. A turn that did not come to its end is a [TurnFailed].
func (s *Session) Prompt(ctx context.Context, prompt string, options PromptOptions) (*Update, error) {
	sent, err := s.Send(ctx, prompt)
	if err != nil {
		return nil, err
	}
	updates, err := s.Stream(ctx, UpdateOptions{SinceSeq: sent.AfterSeq})
	if err != nil {
		return nil, err
	}
	defer updates.Close()
	asked := map[string]bool{}
	for {
		update, err := updates.Next(ctx)
		if err != nil {
			return nil, err
		}
		if update.Turn != sent.Turn {
			continue
		}
		if options.OnUpdate != nil {
			options.OnUpdate(update)
		}
		switch update.Type {
		case UpdateApprovalRequest:
			if options.OnApproval == nil || asked[update.RequestID] {
				continue
			}
			asked[update.RequestID] = true
			decision, err := options.OnApproval(ctx, update)
			if err != nil {
				return nil, err
			}
			if _, err := s.Approve(ctx, SessionApproveParams{RequestID: update.RequestID, Decision: decision}); err != nil {
				return nil, err
			}
		case UpdateTurnComplete:
			if update.Outcome != "completed" {
				return nil, &TurnFailed{update}
			}
			return &update, nil
		}
	}
}

// Stream gives what happens in the session, from any point on, also across restarts of the house. It lasts until Close,
// until the context ends, or until the session is closed.
func (s *Session) Stream(ctx context.Context, options UpdateOptions) (*UpdateStream, error) {
	return openUpdates(ctx, s.house.socket, s.ID, options)
}

// Approve answers an approval_request; the session's id is put in.
func (s *Session) Approve(ctx context.Context, answer SessionApproveParams) (*Acknowledged, error) {
	answer.SessionID = s.ID
	return askSession[Acknowledged](ctx, s, "session/approve", answer, true)
}

// Cancel ends the running turn.
func (s *Session) Cancel(ctx context.Context) (*Cancelled, error) {
	return askSession[Cancelled](ctx, s, "session/cancel", SessionParams{SessionID: s.ID}, false)
}

// Interrupt ends the running turn and all that waits.
func (s *Session) Interrupt(ctx context.Context) (*Interrupted, error) {
	return askSession[Interrupted](ctx, s, "session/interrupt", SessionParams{SessionID: s.ID}, false)
}

// Messages gives questions and answers, a page counted from the end; the session's id is put in.
func (s *Session) Messages(ctx context.Context, query SessionMessagesParams) (*SessionMessages, error) {
	query.SessionID = s.ID
	return askSession[SessionMessages](ctx, s, "session/messages", query, true)
}

// Close archives the session; CreateSession with its id brings it back.
func (s *Session) Close(ctx context.Context) (*Closed, error) {
	return askSession[Closed](ctx, s, "session/close", SessionParams{SessionID: s.ID}, false)
}

// Kill archives the session for good.
func (s *Session) Kill(ctx context.Context) (*Killed, error) {
	return askSession[Killed](ctx, s, "session/kill", SessionParams{SessionID: s.ID}, false)
}

// Delete forgets the session with its history and files.
func (s *Session) Delete(ctx context.Context) (*SessionDeleted, error) {
	return askSession[SessionDeleted](ctx, s, "session/delete", SessionParams{SessionID: s.ID}, false)
}

func askSession[T any](ctx context.Context, s *Session, method string, params any, repeatable bool) (*T, error) {
	result := new(T)
	if err := s.house.ask(ctx, method, params, result, repeatable); err != nil {
		return nil, err
	}
	return result, nil
}

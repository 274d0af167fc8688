package hostel

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

const (
	defaultTimeout  = 30 * time.Second
	transferTimeout = 15 * time.Minute
)

// Options say how a daemon is found and spoken to. Nothing has to be said.
type Options struct {
	// Mesh is its name; else CLAUDEMESH_MESH, else the only one there is.
	Mesh string
	// DaemonDir is the directory of all daemons; else CLAUDEMESH_DAEMON_DIR, else ~/.claudemesh/daemon.
	DaemonDir string
	// Socket is the daemon's socket itself.
	Socket string
	// Port is the daemon's loopback port itself; Token belongs to it.
	Port  int
	Token string
	// SessionToken makes the client speak as this session (64 hex digits) instead of the one the environment names.
	SessionToken string
	// AsMember makes the client speak as the member, also inside a session.
	AsMember bool
	// Timeout is how long a request may take, repetitions included; default 30 s. Files have 15 minutes. A context
	// with an earlier end ends it earlier.
	Timeout time.Duration
	// UserAgent is put before the package's own name.
	UserAgent string
	// Getenv instead of os.Getenv.
	Getenv func(string) string
}

// Mesh is a mesh, through the daemon on this machine.
//
// What was taken by the daemon is never sent a second time: a message gets its id before the first attempt and keeps it,
// other requests that change something are repeated only if they have reached nobody.
type Mesh struct {
	transport *transport
	timeout   time.Duration
	agreed    atomic.Pointer[Version]
}

// New makes a client that asks nobody yet; Connect also makes sure that a daemon answers.
func New(options Options) (*Mesh, error) {
	at, err := findDaemon(options)
	if err != nil {
		return nil, err
	}
	agent := "hostel-sdk-go/" + SDKVersion
	if options.UserAgent != "" {
		agent = options.UserAgent + " " + agent
	}
	timeout := options.Timeout
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	speaks := func() string { return speaker(options) }
	return &Mesh{transport: newTransport(at, speaks, agent), timeout: timeout}, nil
}

// Connect finds the daemon and agrees on a version with it.
func Connect(ctx context.Context, options Options) (*Mesh, error) {
	m, err := New(options)
	if err != nil {
		return nil, err
	}
	version, err := ask[Version](ctx, m, request{method: "GET", path: "/v1/version", repeatable: true, once: true, plain: true})
	if err != nil {
		return nil, err
	}
	if major, _, _ := strings.Cut(version.IPCAPI, "."); major != IPCAPI {
		return nil, &VersionError{fmt.Sprintf("the daemon speaks %s, this package %s", version.IPCAPI, IPCAPI)}
	}
	if wanted := m.transport.place.mesh; wanted != "" && version.Mesh != wanted {
		return nil, &VersionError{fmt.Sprintf("the daemon serves the mesh %q and not %q", version.Mesh, wanted)}
	}
	m.agreed.Store(version)
	return m, nil
}

// Name is the mesh's name; empty for a client that was given a socket or port and has not connected.
func (m *Mesh) Name() string {
	if version := m.agreed.Load(); version != nil {
		return version.Mesh
	}
	return m.transport.place.mesh
}

// IPCMinor is the additive version both sides know: the smaller of the daemon's and this package's; 0 before Connect.
func (m *Mesh) IPCMinor() int64 {
	if version := m.agreed.Load(); version != nil {
		return min(version.IPCMinor, IPCMinor)
	}
	return 0
}

// Send sends a message. Once it returns, the message is on disk and will be delivered, whatever is killed.
func (m *Mesh) Send(ctx context.Context, message SendRequest) (*Sent, error) {
	if message.ClientMessageID == "" {
		message.ClientMessageID = newID()
	}
	return ask[Sent](ctx, m, request{method: "POST", path: "/v1/send", body: message, repeatable: true})
}

// Post posts to a topic.
func (m *Mesh) Post(ctx context.Context, post PostRequest) (*Sent, error) {
	if post.ClientMessageID == "" {
		post.ClientMessageID = newID()
	}
	return ask[Sent](ctx, m, request{method: "POST", path: "/v1/topic/post", body: post, repeatable: true})
}

// Subscribe subscribes to a topic, which is made if it is not there.
func (m *Mesh) Subscribe(ctx context.Context, topic string) (*Subscribed, error) {
	body := TopicRequest{Topic: topic}
	return ask[Subscribed](ctx, m, request{method: "POST", path: "/v1/topic/subscribe", body: body, repeatable: true})
}

// Unsubscribe ends a subscription.
func (m *Mesh) Unsubscribe(ctx context.Context, topic string) (*Subscribed, error) {
	body := TopicRequest{Topic: topic}
	return ask[Subscribed](ctx, m, request{method: "POST", path: "/v1/topic/unsubscribe", body: body, repeatable: true})
}

// Topics lists the topics of the mesh.
func (m *Mesh) Topics(ctx context.Context) ([]Topic, error) {
	list, err := ask[TopicList](ctx, m, request{method: "GET", path: "/v1/topic/list", repeatable: true})
	if err != nil {
		return nil, err
	}
	return list.Topics, nil
}

// Inbox gives a page of what was received, newest first. What is listed counts as seen, unless MarkSeen is false.
func (m *Mesh) Inbox(ctx context.Context, query InboxQuery) (*InboxPage, error) {
	// A page that counts as seen is not asked for twice: UnreadOnly would pass over what got lost on the way.
	marks := query.MarkSeen == nil || *query.MarkSeen
	unread := query.UnreadOnly != nil && *query.UnreadOnly
	return get[InboxPage](ctx, m, "/v1/inbox", query, !(marks && unread))
}

// Search looks for words in what was received (FTS5).
func (m *Mesh) Search(ctx context.Context, query SearchQuery) (*SearchPage, error) {
	return get[SearchPage](ctx, m, "/v1/inbox/search", query, true)
}

// MarkSeen makes messages count as seen.
func (m *Mesh) MarkSeen(ctx context.Context, ids ...string) (*Seen, error) {
	if ids == nil {
		ids = []string{}
	}
	return ask[Seen](ctx, m, request{method: "POST", path: "/v1/inbox/seen", body: SeenRequest{IDs: ids}})
}

// DeleteMessage deletes a message of the inbox.
func (m *Mesh) DeleteMessage(ctx context.Context, id string) (*Deleted, error) {
	return ask[Deleted](ctx, m, request{method: "DELETE", path: "/v1/inbox/" + url.PathEscape(id)})
}

// DeleteBefore deletes everything that was received before then (RFC 3339).
func (m *Mesh) DeleteBefore(ctx context.Context, before string) (*Deleted, error) {
	return ask[Deleted](ctx, m, request{method: "DELETE", path: "/v1/inbox", query: url.Values{"before": {before}}})
}

// Peers tells who is there; with All also who is not.
func (m *Mesh) Peers(ctx context.Context, query PeersQuery) ([]Peer, error) {
	list, err := get[PeerList](ctx, m, "/v1/peers", query, true)
	if err != nil {
		return nil, err
	}
	return list.Peers, nil
}

// Profile changes what peers see.
func (m *Mesh) Profile(ctx context.Context, change ProfileRequest) (*ProfileApplied, error) {
	return ask[ProfileApplied](ctx, m, request{method: "POST", path: "/v1/profile", body: change, repeatable: true})
}

// Heartbeat says that whoever calls is at work; it fades after a minute.
func (m *Mesh) Heartbeat(ctx context.Context) (*Heartbeat, error) {
	return ask[Heartbeat](ctx, m, request{method: "POST", path: "/v1/heartbeat", body: struct{}{}, repeatable: true})
}

// ShareFile shares a file by its path on the daemon's machine.
func (m *Mesh) ShareFile(ctx context.Context, share ShareRequest) (*Shared, error) {
	return ask[Shared](ctx, m, request{method: "POST", path: "/v1/file/share", body: share, timeout: transferTimeout})
}

// GetFile fetches a file to a path on the daemon's machine.
func (m *Mesh) GetFile(ctx context.Context, id, out string) (*Fetched, error) {
	asked := request{method: "GET", path: "/v1/file/get", repeatable: true, timeout: transferTimeout}
	asked.query = url.Values{"id": {id}, "out": {out}}
	return ask[Fetched](ctx, m, asked)
}

// Files lists the files of the mesh.
func (m *Mesh) Files(ctx context.Context) ([]FileItem, error) {
	list, err := ask[FileList](ctx, m, request{method: "GET", path: "/v1/file/list", repeatable: true})
	if err != nil {
		return nil, err
	}
	return list.Files, nil
}

// Health tells how the daemon stands.
func (m *Mesh) Health(ctx context.Context) (*Health, error) {
	return ask[Health](ctx, m, request{method: "GET", path: "/v1/health", repeatable: true})
}

// Version tells which versions the daemon has.
func (m *Mesh) Version(ctx context.Context) (*Version, error) {
	return ask[Version](ctx, m, request{method: "GET", path: "/v1/version", repeatable: true})
}

// Compat tells which versions fit the daemon's.
func (m *Mesh) Compat(ctx context.Context) (*Compat, error) {
	return ask[Compat](ctx, m, request{method: "GET", path: "/v1/compat", repeatable: true})
}

// Metrics gives Prometheus' text.
func (m *Mesh) Metrics(ctx context.Context) (string, error) {
	found, err := m.exchange(ctx, request{method: "GET", path: "/v1/metrics", repeatable: true})
	return string(found.body), err
}

func get[T any](ctx context.Context, m *Mesh, path string, of any, repeatable bool) (*T, error) {
	query, err := queryOf(of)
	if err != nil {
		return nil, err
	}
	return ask[T](ctx, m, request{method: "GET", path: path, query: query, repeatable: repeatable})
}

func ask[T any](ctx context.Context, m *Mesh, r request) (*T, error) {
	found, err := m.exchange(ctx, r)
	if err != nil {
		return nil, err
	}
	result := new(T)
	if err := json.Unmarshal(found.body, result); err != nil {
		return nil, &ConnectionError{Code: ProtocolError, Err: err}
	}
	return result, nil
}

// exchange asks until there is an answer, as far as the request may be repeated and there is time.
func (m *Mesh) exchange(ctx context.Context, r request) (answer, error) {
	timeout := m.timeout
	if r.timeout > 0 {
		timeout = r.timeout
	}
	deadline := time.Now().Add(timeout)
	if given, ok := ctx.Deadline(); ok && given.Before(deadline) {
		deadline = given
	}
	inner, cancel := context.WithDeadlineCause(ctx, deadline, &ConnectionError{Code: Timeout})
	defer cancel()
	pauses := newBackoff(50*time.Millisecond, 2*time.Second)
	for {
		found, err := m.accepted(inner, r)
		if err == nil {
			return found, nil
		}
		pause, again := patience(err, r, pauses)
		if ctx.Err() != nil || !again || !time.Now().Add(pause).Before(deadline) {
			return answer{}, err
		}
		if sleep(inner, pause) != nil {
			return answer{}, context.Cause(inner)
		}
	}
}

// accepted asks once for something that has to work; a second time if the token was changed between reading and
// showing it.
func (m *Mesh) accepted(ctx context.Context, r request) (answer, error) {
	_, before, _ := m.transport.place.loopback()
	found, err := m.transport.exchange(ctx, r)
	if err == nil && found.status == 401 && found.loopback {
		if _, now, _ := m.transport.place.loopback(); now != before {
			found, err = m.transport.exchange(ctx, r)
		}
	}
	if err == nil && found.status >= 400 {
		err = refusal(found)
	}
	return found, err
}

// patience says after which pause a request may be repeated, if at all.
func patience(err error, r request, pauses *backoff) (time.Duration, bool) {
	if r.once {
		return 0, false
	}
	var lost *ConnectionError
	if errors.As(err, &lost) {
		again := lost.Code != Timeout && lost.Code != ProtocolError && (r.repeatable || lost.Unsent)
		return pauses.pause(), again
	}
	var refused *MeshError
	if errors.As(err, &refused) && refused.Status == 429 && refused.RetryAfter >= 0 && r.repeatable {
		return refused.RetryAfter, true
	}
	return 0, false
}

// Ptr is a pointer to a value, for the fields of requests that may be left out: InboxQuery{MarkSeen: Ptr(false)}.
func Ptr[T any](value T) *T { return &value }

// newID is one for a message.
func newID() string {
	random := make([]byte, 16)
	// It does not fail on the systems there are.
	_, _ = rand.Read(random)
	return hex.EncodeToString(random)
}

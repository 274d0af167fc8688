package hostel

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
)

func version(change map[string]any) map[string]any {
	version := map[string]any{"daemon_version": "0.1.0", "ipc_api": "v1", "ipc_minor": 1, "mesh": "lab"}
	for name, value := range change {
		version[name] = value
	}
	return version
}

func TestConnectAgreesOnTheSmallerMinor(t *testing.T) {
	ctx, daemon := context.Background(), newFakeDaemon(t).listen()
	daemon.inTurn(says(200, version(nil)), says(200, version(map[string]any{"ipc_minor": 99})),
		says(200, version(map[string]any{"ipc_api": "v2"})), says(200, version(map[string]any{"mesh": "other"})))
	mesh, err := Connect(ctx, daemon.options())
	if err != nil || mesh.IPCMinor() != 1 || mesh.Name() != "lab" {
		t.Fatal(mesh, err)
	}
	if mesh, err = Connect(ctx, daemon.options()); err != nil || mesh.IPCMinor() != IPCMinor {
		t.Fatal(mesh, err)
	}
	for range 2 {
		var wrong *VersionError
		if _, err := Connect(ctx, daemon.options()); !errors.As(err, &wrong) || !errors.Is(err, IncompatibleDaemon) {
			t.Fatal(err)
		}
	}
}

func TestConnectFailsAtOnceWhereNobodyAnswers(t *testing.T) {
	_, err := Connect(context.Background(), newFakeDaemon(t).options())
	var lost *ConnectionError
	if !errors.As(err, &lost) || lost.Code != DaemonUnreachable || !lost.Unsent {
		t.Fatal(err)
	}
}

func TestAMessageWhoseAnswerGotLostIsSentAgainUnderTheSameID(t *testing.T) {
	daemon := newFakeDaemon(t).listen()
	daemon.inTurn(hangsUp, hangsUp, says(202, map[string]any{"messageId": "m", "client_message_id": "m", "status": "queued"}))
	sent, err := daemon.mesh().Send(context.Background(), SendRequest{To: "bob", Message: "hello", Priority: PriorityNow, Meta: map[string]any{"a": 1}})
	if err != nil || sent.Status != "queued" {
		t.Fatal(sent, err)
	}
	requests := daemon.requests()
	if len(requests) != 3 || requests[0].body["client_message_id"] == "" {
		t.Fatal(requests)
	}
	for _, request := range requests[1:] {
		if !reflect.DeepEqual(request.body, requests[0].body) {
			t.Fatal(request.body)
		}
	}
}

func TestADaemonThatEndsCountsAsOneThatIsGone(t *testing.T) {
	daemon := newFakeDaemon(t).listen()
	daemon.inTurn(says(503, map[string]any{"error": "closed", "detail": "ending"}), says(200, map[string]any{"ok": true}))
	if seen, err := daemon.mesh().MarkSeen(context.Background(), "a"); err != nil || !seen.OK {
		t.Fatal(seen, err)
	}
}

func TestWhatMayHaveBeenDoneIsNotRepeated(t *testing.T) {
	daemon := newFakeDaemon(t).listen()
	daemon.answer = hangsUp
	_, err := daemon.mesh().DeleteMessage(context.Background(), "a/b")
	if !errors.Is(err, ConnectionLost) {
		t.Fatal(err)
	}
	if requests := daemon.requests(); len(requests) != 1 || requests[0].path != "/v1/inbox/a%2Fb" {
		t.Fatal(requests)
	}
}

func TestARefusalSaysWhatWhyAndAboutWhichField(t *testing.T) {
	daemon := newFakeDaemon(t).listen()
	daemon.answer = says(409, map[string]any{"error": "idempotency_key_reused", "detail": "taken", "field": "client_message_id", "conflict": "outbox_done_x"})
	_, err := daemon.mesh().Send(context.Background(), SendRequest{To: "bob", Message: "x"})
	var refused *MeshError
	if !errors.As(err, &refused) || !errors.Is(err, Code("idempotency_key_reused")) || errors.Is(err, Code("closed")) {
		t.Fatal(err)
	}
	refusal, err := refused.Refusal()
	if err != nil || refused.Status != 409 || refused.Field != "client_message_id" || refusal.Conflict != "outbox_done_x" {
		t.Fatal(refused, refusal, err)
	}
	if len(daemon.requests()) != 1 {
		t.Fatal("it was repeated")
	}
}

func TestWhoIsToldToComeBackLaterDoes(t *testing.T) {
	daemon := newFakeDaemon(t).listen()
	daemon.inTurn(says(429, map[string]any{"error": "daemon_busy"}, "Retry-After", "0"), says(200, map[string]any{"peers": []any{}}),
		says(503, map[string]any{"error": "degraded"}, "Retry-After", "1"))
	if peers, err := daemon.mesh().Peers(context.Background(), PeersQuery{}); err != nil || len(peers) != 0 {
		t.Fatal(peers, err)
	}
	_, err := daemon.mesh().Peers(context.Background(), PeersQuery{})
	var refused *MeshError
	if !errors.As(err, &refused) || refused.Code != "degraded" || refused.RetryAfter != time.Second {
		t.Fatal(err)
	}
}

func TestWithoutASocketTheWayIsLoopbackWithTheTokenAsItIsNow(t *testing.T) {
	daemon := newFakeDaemon(t).listenLoopback("old")
	daemon.answer = func(w http.ResponseWriter, a asked) {
		if a.header.Get("Authorization") == "Bearer new" {
			says(200, map[string]any{"topics": []any{}})(w, a)
			return
		}
		daemon.write("local_token", "new")
		says(401, map[string]any{"error": "unauthorized"})(w, a)
	}
	if topics, err := daemon.mesh().Topics(context.Background()); err != nil || len(topics) != 0 {
		t.Fatal(topics, err)
	}
	requests := daemon.requests()
	if len(requests) != 2 || requests[0].header.Get("Authorization") != "Bearer old" {
		t.Fatal(requests)
	}
	if agent := requests[0].header.Get("User-Agent"); !strings.HasPrefix(agent, "hostel-sdk-go/") {
		t.Fatal(agent)
	}
}

func TestASessionSpeaksOnTheSocketAndNeverOverLoopback(t *testing.T) {
	token := strings.Repeat("c", 64)
	daemon := newFakeDaemon(t).listenLoopback("secret")
	daemon.answer = says(200, map[string]any{"ok": true})
	options := daemon.options()
	options.Getenv = environment("CLAUDEMESH_IPC_TOKEN", token)
	mesh, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	brief := options
	brief.Timeout = 200 * time.Millisecond
	inVain, err := New(brief)
	if err != nil {
		t.Fatal(err)
	}
	// Which of the two it is depends on what it is at when its time is over.
	_, err = inVain.Health(context.Background())
	if !errors.Is(err, DaemonUnreachable) && !errors.Is(err, Timeout) || len(daemon.requests()) != 0 {
		t.Fatal(err)
	}
	daemon.listen()
	if _, err := mesh.Health(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := daemon.requests()[0].header.Get("Authorization"); got != "ClaudeMesh-Session "+token {
		t.Fatal(got)
	}
}

func TestACallEndsWithItsContextAndAfterItsTime(t *testing.T) {
	daemon := newFakeDaemon(t).listen()
	ctx, cancel := context.WithCancel(context.Background())
	daemon.inTurn(func(_ http.ResponseWriter, a asked) { cancel(); <-a.request.Context().Done() },
		func(_ http.ResponseWriter, a asked) { <-a.request.Context().Done() })
	if _, err := daemon.mesh().Health(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	options := daemon.options()
	options.Timeout = 50 * time.Millisecond
	mesh, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mesh.Health(context.Background()); !errors.Is(err, Timeout) {
		t.Fatal(err)
	}
}

func TestQueriesHaveTheNamesOfTheWire(t *testing.T) {
	daemon := newFakeDaemon(t).listen()
	daemon.answer = says(200, map[string]any{"items": []any{}, "marked_seen": 0, "next": nil})
	query := InboxQuery{Since: "2026-01-01T00:00:00+02:00", Limit: 5, MarkSeen: Ptr(false)}
	page, err := daemon.mesh().Inbox(context.Background(), query)
	if err != nil || page.Next != nil {
		t.Fatal(page, err)
	}
	got, err := json.Marshal(daemon.requests()[0].query)
	if err != nil || string(got) != `{"limit":["5"],"mark_seen":["false"],"since":["2026-01-01T00:00:00+02:00"]}` {
		t.Fatal(string(got), err)
	}
}

func TestWhatIsNoJSONIsNoAnswer(t *testing.T) {
	daemon := newFakeDaemon(t).listen()
	daemon.answer = func(w http.ResponseWriter, _ asked) { w.Write([]byte("<html>")) }
	if _, err := daemon.mesh().Files(context.Background()); !errors.Is(err, ProtocolError) {
		t.Fatal(err)
	}
}

func TestAnAnswerThatBreaksOffIsNoAnswer(t *testing.T) {
	daemon := newFakeDaemon(t).listen()
	daemon.inTurn(func(w http.ResponseWriter, _ asked) {
		w.Header().Set("Content-Length", "100")
		w.Write([]byte(`{"files":`))
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}, says(200, map[string]any{"files": []any{}}))
	if files, err := daemon.mesh().Files(context.Background()); err != nil || len(files) != 0 {
		t.Fatal(files, err)
	}
}

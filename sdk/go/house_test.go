package hostel

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

func TestARefusalHasItsNumberAndALostPromptIsNotRepeated(t *testing.T) {
	ctx, house := context.Background(), newFakeHouse(t)
	client := house.client()
	house.answers(func(c *called) { c.refuse(-32000, "there is no session `x`") })
	var refused *HouseError
	if _, err := client.Session("x").Send(ctx, "hi"); !errors.As(err, &refused) || refused.Code != -32000 {
		t.Fatal(err)
	}
	house.answers(func(c *called) { c.connection.Close() })
	var lost *ConnectionError
	if _, err := client.Session("x").Send(ctx, "hi"); !errors.As(err, &lost) || lost.Code != ConnectionLost || lost.Unsent {
		t.Fatal(err)
	}
	if calls := house.calls("session/send"); len(calls) != 2 {
		t.Fatal(calls)
	}
	var once sync.Once
	house.answers(func(c *called) {
		hungUp := false
		once.Do(func() { hungUp = true; c.connection.Close() })
		if !hungUp {
			c.result(map[string]any{"sessions": []any{}})
		}
	})
	if sessions, err := client.Sessions(ctx, SessionListParams{All: Ptr(true)}); err != nil || len(sessions) != 0 {
		t.Fatal(sessions, err)
	}
}

func TestNobodyThereIsToldAtOnce(t *testing.T) {
	_, err := ConnectHouse(context.Background(), HouseOptions{Home: filepath.Join(t.TempDir(), "none")})
	if !errors.Is(err, DaemonUnreachable) {
		t.Fatal(err)
	}
}

// scripted is a session in which one turn of four updates happens; the connection is lost once the question is answered.
func scripted(house *fakeHouse, outcome string) {
	updates := []map[string]any{
		{"type": "turn_started", "prompt": "p", "door": "native", "seq": 11, "turn": 2},
		{"type": "approval_request", "request_id": "r", "tool_name": "bash", "raw_input": map[string]any{}, "seq": 12, "turn": 2},
		{"type": "agent_message_chunk", "text": "hi", "seq": 13, "turn": 2},
		{"type": "turn_complete", "outcome": outcome, "content": "hi", "seq": 14, "turn": 2},
	}
	var mutex sync.Mutex
	var attached *called
	house.answers(func(c *called) {
		mutex.Lock()
		defer mutex.Unlock()
		switch c.Method {
		case "session/send":
			c.result(map[string]any{"session_id": "s", "turn": 2, "position": 0, "after_seq": 10})
		case "session/approve":
			c.result(map[string]any{"session_id": "s", "request_id": "r", "acknowledged": true})
			attached.connection.Close()
		case "session/attach":
			c.result(map[string]any{})
			since, _ := c.Params["since_seq"].(float64)
			for _, update := range updates {
				again := update["seq"].(int) > int(since) || update["type"] == "approval_request"
				if attached == nil && update["seq"].(int) <= 12 || attached != nil && again {
					c.note(update)
				}
			}
			attached = c
		}
	})
}

func TestAPromptIsFollowedToItsEndAcrossALostConnection(t *testing.T) {
	house := newFakeHouse(t)
	scripted(house, "completed")
	var seen, asked []string
	turn, err := house.client().Session("s").Prompt(context.Background(), "p", PromptOptions{
		OnUpdate: func(update Update) {
			if update.Type != UpdateApprovalRequest {
				seen = append(seen, update.Type)
			}
		},
		OnApproval: func(_ context.Context, update Update) (Decision, error) {
			asked = append(asked, update.RequestID)
			return DecisionAllowOnce, nil
		},
	})
	if err != nil || turn.Content != "hi" {
		t.Fatal(turn, err)
	}
	if !slices.Equal(seen, []string{UpdateTurnStarted, UpdateAgentMessageChunk, UpdateTurnComplete}) || !slices.Equal(asked, []string{"r"}) {
		t.Fatal(seen, asked)
	}
	var since []any
	for _, c := range house.calls("session/attach") {
		since = append(since, c.Params["since_seq"])
	}
	if !slices.Equal(since, []any{10.0, 12.0}) {
		t.Fatal(since)
	}
	if params := house.calls("session/approve")[0].Params; params["session_id"] != "s" || params["decision"] != "allow_once" {
		t.Fatal(params)
	}
}

func TestATurnThatFailedIsAnErrorThatHasIt(t *testing.T) {
	house := newFakeHouse(t)
	scripted(house, "failed")
	_, err := house.client().Session("s").Prompt(context.Background(), "p", PromptOptions{
		OnApproval: func(context.Context, Update) (Decision, error) { return DecisionReject, nil },
	})
	var failed *TurnFailed
	if !errors.As(err, &failed) || !errors.Is(err, Code("turn_failed")) || failed.Turn.Seq != 14 {
		t.Fatal(err)
	}
}

func TestAReplayEndsByItself(t *testing.T) {
	house := newFakeHouse(t)
	house.answers(func(c *called) {
		c.result(map[string]any{})
		c.note(map[string]any{"type": "notice", "message": "x", "seq": 1, "turn": 1})
		last := UpdateReplayComplete
		if c.Params["follow"] == true {
			last = UpdateSessionClosed
		}
		c.note(map[string]any{"type": last, "last_seq": 1})
	})
	for replay, last := range map[bool]string{true: UpdateReplayComplete, false: UpdateSessionClosed} {
		stream, err := house.client().Session("s").Stream(context.Background(), UpdateOptions{ReplayOnly: replay})
		if err != nil {
			t.Fatal(err)
		}
		var types []string
		stream.All()(func(update Update, err error) bool {
			if err != nil {
				t.Error(err)
			}
			types = append(types, update.Type)
			return true
		})
		if !slices.Equal(types, []string{UpdateNotice, last}) || stream.LastSeq() != 1 {
			t.Fatal(types)
		}
		if _, err := stream.Next(context.Background()); !errors.Is(err, StreamClosed) {
			t.Fatal(err)
		}
	}
}

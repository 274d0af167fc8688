package main

import (
	"context"
	"encoding/json"

	hostel "hostel/sdk/go"
)

// operation calls the method of the SDK that a program would call.
type operation[Client any] func(ctx context.Context, client Client, args json.RawMessage) (any, error)

// with reads the arguments into the request's struct.
func with[Client, Arguments, Result any](call func(Client, context.Context, Arguments) (Result, error)) operation[Client] {
	return func(ctx context.Context, client Client, args json.RawMessage) (any, error) {
		var read Arguments
		if err := json.Unmarshal(args, &read); err != nil {
			return nil, err
		}
		return call(client, ctx, read)
	}
}

// plain is for what takes no arguments.
func plain[Client, Result any](call func(Client, context.Context) (Result, error)) operation[Client] {
	return func(ctx context.Context, client Client, _ json.RawMessage) (any, error) { return call(client, ctx) }
}

var meshOperations = map[string]operation[*hostel.Mesh]{
	"send":       with((*hostel.Mesh).Send),
	"topic_post": with((*hostel.Mesh).Post),
	"topic_subscribe": with(func(m *hostel.Mesh, ctx context.Context, args hostel.TopicRequest) (any, error) {
		return m.Subscribe(ctx, args.Topic)
	}),
	"topic_unsubscribe": with(func(m *hostel.Mesh, ctx context.Context, args hostel.TopicRequest) (any, error) {
		return m.Unsubscribe(ctx, args.Topic)
	}),
	"topic_list":   plain((*hostel.Mesh).Topics),
	"inbox":        with((*hostel.Mesh).Inbox),
	"inbox_search": with((*hostel.Mesh).Search),
	"inbox_seen": with(func(m *hostel.Mesh, ctx context.Context, args hostel.SeenRequest) (any, error) {
		return m.MarkSeen(ctx, args.IDs...)
	}),
	"inbox_delete": with(func(m *hostel.Mesh, ctx context.Context, args hostel.DeleteQuery) (any, error) {
		return m.DeleteMessage(ctx, args.ID)
	}),
	"inbox_delete_before": with(func(m *hostel.Mesh, ctx context.Context, args hostel.DeleteBeforeQuery) (any, error) {
		return m.DeleteBefore(ctx, args.Before)
	}),
	"peers":      with((*hostel.Mesh).Peers),
	"profile":    with((*hostel.Mesh).Profile),
	"file_share": with((*hostel.Mesh).ShareFile),
	"file_get": with(func(m *hostel.Mesh, ctx context.Context, args hostel.FileGetQuery) (any, error) {
		return m.GetFile(ctx, args.ID, args.Out)
	}),
	"file_list": plain((*hostel.Mesh).Files),
	"health":    plain((*hostel.Mesh).Health),
	"version":   plain((*hostel.Mesh).Version),
	"compat":    plain((*hostel.Mesh).Compat),
	"metrics":   plain((*hostel.Mesh).Metrics),
	"heartbeat": plain((*hostel.Mesh).Heartbeat),
}

// session is for methods of a session without arguments of their own.
func session[Result any](call func(*hostel.Session, context.Context) (Result, error)) operation[*hostel.House] {
	return with(func(h *hostel.House, ctx context.Context, args hostel.SessionParams) (any, error) {
		return call(h.Session(args.SessionID), ctx)
	})
}

var houseOperations = map[string]operation[*hostel.House]{
	"initialize":  plain((*hostel.House).Initialize),
	"agents_list": plain((*hostel.House).Agents),
	"session_new": with(func(h *hostel.House, ctx context.Context, args hostel.SessionNewParams) (any, error) {
		made, err := h.CreateSession(ctx, args)
		if err != nil {
			return nil, err
		}
		return made.Made, nil
	}),
	"session_list": with((*hostel.House).Sessions),
	"session_send": with(func(h *hostel.House, ctx context.Context, args hostel.SessionSendParams) (any, error) {
		return h.Session(args.SessionID).Send(ctx, args.Prompt)
	}),
	"session_approve": with(func(h *hostel.House, ctx context.Context, args hostel.SessionApproveParams) (any, error) {
		return h.Session(args.SessionID).Approve(ctx, args)
	}),
	"session_messages": with(func(h *hostel.House, ctx context.Context, args hostel.SessionMessagesParams) (any, error) {
		return h.Session(args.SessionID).Messages(ctx, args)
	}),
	"session_cancel":    session((*hostel.Session).Cancel),
	"session_interrupt": session((*hostel.Session).Interrupt),
	"session_close":     session((*hostel.Session).Close),
	"session_kill":      session((*hostel.Session).Kill),
	"session_delete":    session((*hostel.Session).Delete),
	// Streams attach by themselves; these two are here for the sake of the list.
	"session_attach": with(func(h *hostel.House, ctx context.Context, args hostel.SessionAttachParams) (any, error) {
		var result hostel.Attached
		return result, h.Call(ctx, "session/attach", args, &result)
	}),
	"session_detach": with(func(h *hostel.House, ctx context.Context, args hostel.SessionParams) (any, error) {
		var result hostel.Detached
		return result, h.Call(ctx, "session/detach", args, &result)
	}),
}

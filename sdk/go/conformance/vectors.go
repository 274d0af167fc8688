package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	hostel "hostel/sdk/go"
)

const takeTimeout = 60 * time.Second

type step struct {
	As      string            `json:"as"`
	Call    string            `json:"call"`
	Open    string            `json:"open"`
	Stream  string            `json:"stream"`
	Take    string            `json:"take"`
	Count   int               `json:"count"`
	Until   map[string]any    `json:"until"`
	Close   string            `json:"close"`
	Prompt  any               `json:"prompt"`
	Control string            `json:"control"`
	With    any               `json:"with"`
	Capture map[string]string `json:"capture"`
	Only    []string          `json:"only"`
}

// stream gives one item at a time, as it is written down.
type stream struct {
	next  func(ctx context.Context) (any, error)
	close func() error
}

// run is one vector; clients outlive it.
type run struct {
	lab     lab
	meshes  map[string]*hostel.Mesh
	house   **hostel.House
	known   map[string]any
	streams map[string]stream
}

// runVectors calls the SDK and writes down what it gave. It knows no expectations.
func runVectors(ctx context.Context, path string, started lab, input *bufio.Scanner) error {
	var file struct {
		Vectors []struct {
			Steps []step   `json:"steps"`
			Only  []string `json:"only"`
		} `json:"vectors"`
	}
	if err := readJSON(path, &file); err != nil {
		return err
	}
	meshes := map[string]*hostel.Mesh{}
	var house *hostel.House
	for number, vector := range file.Vectors {
		r := &run{lab: started, meshes: meshes, house: &house, streams: map[string]stream{}}
		r.known = map[string]any{"dir": started.Dir, "sdk": started.SDK}
		for name, member := range started.Members {
			r.known[name] = member.Pubkey
		}
		for index, step := range vector.Steps {
			only := append(slices.Clone(vector.Only), step.Only...)
			if len(only) > 0 && !slices.Contains(only, started.SDK) {
				continue
			}
			line := map[string]any{"vector": number, "step": index}
			if step.Control != "" {
				line["control"] = r.filled(step.Control)
				say(line)
				if !input.Scan() {
					return errors.New("nobody answers a control")
				}
				continue
			}
			ok, err := r.do(ctx, step)
			if err == nil {
				ok, err = r.capture(ok, step.Capture)
			}
			if err != nil {
				if line["error"], err = written(err); err != nil {
					return err
				}
			} else {
				line["ok"] = ok
			}
			say(line)
		}
		for _, stream := range r.streams {
			stream.close()
		}
	}
	return nil
}

func (r *run) do(ctx context.Context, step step) (any, error) {
	filled, _ := r.filled(step.With).(map[string]any)
	given := map[string]any{}
	for name, value := range filled {
		if value != nil {
			given[name] = value
		}
	}
	args, err := json.Marshal(given)
	if err != nil {
		return nil, err
	}
	switch {
	case step.Call != "" && step.As == "house":
		house, err := r.theHouse()
		if err != nil {
			return nil, err
		}
		call, ok := houseOperations[step.Call]
		if !ok {
			return nil, fmt.Errorf("there is no operation %q", step.Call)
		}
		return call(ctx, house, args)
	case step.Call != "":
		mesh, err := r.mesh(step.As)
		if err != nil {
			return nil, err
		}
		call, ok := meshOperations[step.Call]
		if !ok {
			return nil, fmt.Errorf("there is no operation %q", step.Call)
		}
		return call(ctx, mesh, args)
	case step.Open != "":
		return nil, r.open(ctx, step, args)
	case step.Take != "":
		return r.take(ctx, step)
	case step.Close != "":
		opened, ok := r.streams[step.Close]
		if !ok {
			return nil, fmt.Errorf("there is no stream %q", step.Close)
		}
		delete(r.streams, step.Close)
		return nil, opened.close()
	case step.Prompt != nil:
		house, err := r.theHouse()
		if err != nil {
			return nil, err
		}
		var params hostel.SessionSendParams
		if err := json.Unmarshal(args, &params); err != nil {
			return nil, err
		}
		turn, err := house.Session(params.SessionID).Prompt(ctx, params.Prompt, hostel.PromptOptions{})
		if err != nil {
			return nil, err
		}
		return turn.Content, nil
	}
	return nil, fmt.Errorf("a step does nothing: %+v", step)
}

func (r *run) mesh(name string) (*hostel.Mesh, error) {
	if name == "" {
		name = "alice"
	}
	if known := r.meshes[name]; known != nil {
		return known, nil
	}
	made, err := r.lab.mesh(name)
	if err == nil {
		r.meshes[name] = made
	}
	return made, err
}

func (r *run) theHouse() (*hostel.House, error) {
	if *r.house == nil {
		made, err := hostel.NewHouse(hostel.HouseOptions{Home: r.lab.House})
		if err != nil {
			return nil, err
		}
		*r.house = made
	}
	return *r.house, nil
}

func (r *run) open(ctx context.Context, step step, args json.RawMessage) error {
	name := step.Stream
	if name == "" {
		name = step.Open
	}
	if step.As == "house" {
		house, err := r.theHouse()
		if err != nil {
			return err
		}
		var params hostel.SessionAttachParams
		if err := json.Unmarshal(args, &params); err != nil {
			return err
		}
		options := hostel.UpdateOptions{SinceSeq: params.SinceSeq, ReplayOnly: params.Follow != nil && !*params.Follow}
		updates, err := house.Session(params.SessionID).Stream(ctx, options)
		if err != nil {
			return err
		}
		next := func(ctx context.Context) (any, error) {
			update, err := updates.Next(ctx)
			if err != nil {
				return nil, err
			}
			return writtenUpdate(update)
		}
		r.streams[name] = stream{next, updates.Close}
		return nil
	}
	mesh, err := r.mesh(step.As)
	if err != nil {
		return err
	}
	var params struct {
		Events      []string `json:"events"`
		Topic       string   `json:"topic"`
		LastEventID string   `json:"last_event_id"`
	}
	if err := json.Unmarshal(args, &params); err != nil {
		return err
	}
	events, err := mesh.Events(ctx, hostel.EventOptions(params))
	if err != nil {
		return err
	}
	next := func(ctx context.Context) (any, error) {
		event, err := events.Next(ctx)
		if err != nil {
			return nil, err
		}
		data := event.Value()
		if data == nil {
			data = event.Data
		}
		return map[string]any{"id": event.ID, "name": event.Name, "data": data}, nil
	}
	r.streams[name] = stream{next, events.Close}
	return nil
}

func (r *run) take(ctx context.Context, step step) (any, error) {
	opened, ok := r.streams[step.Take]
	if !ok {
		return nil, fmt.Errorf("there is no stream %q", step.Take)
	}
	until, _ := r.filled(any(step.Until)).(map[string]any)
	count := max(step.Count, 1)
	ctx, cancel := context.WithTimeout(ctx, takeTimeout)
	defer cancel()
	taken := []any{}
	for step.Until != nil || len(taken) < count {
		item, err := opened.next(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			return nil, &hostel.ConnectionError{Code: hostel.Timeout}
		}
		if errors.Is(err, hostel.StreamClosed) {
			break
		}
		if err != nil {
			return nil, err
		}
		taken = append(taken, item)
		if step.Until != nil && fits(item, until) {
			break
		}
	}
	return taken, nil
}

func fits(item any, until map[string]any) bool {
	fields, ok := item.(map[string]any)
	for name, value := range until {
		ok = ok && fields[name] == value
	}
	return ok
}

// writtenUpdate is a typed update with the names of the wire. One struct holds all kinds, so that what is empty in it
// may have been there: that is put back as it came.
func writtenUpdate(update hostel.Update) (map[string]any, error) {
	encoded, err := json.Marshal(update)
	if err != nil {
		return nil, err
	}
	var typed, raw map[string]any
	if err := json.Unmarshal(encoded, &typed); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(update.Raw, &raw); err != nil {
		return nil, err
	}
	for name, value := range raw {
		if _, known := typed[name]; known || name != strings.ToLower(name) {
			continue
		}
		switch value {
		case "", false, float64(0), nil:
			typed[name] = value
		default:
			if list, ok := value.([]any); ok && len(list) == 0 {
				typed[name] = value
			}
		}
	}
	return typed, nil
}

// capture remembers parts of a result for later steps, and gives the result as it will be written.
func (r *run) capture(ok any, wanted map[string]string) (any, error) {
	if len(wanted) == 0 {
		return ok, nil
	}
	encoded, err := json.Marshal(ok)
	if err != nil {
		return nil, err
	}
	var value any
	if err := json.Unmarshal(encoded, &value); err != nil {
		return nil, err
	}
	for name, pointer := range wanted {
		r.known[name] = at(value, pointer)
	}
	return ok, nil
}

// at is the value a JSON pointer leads to.
func at(value any, pointer string) any {
	for _, part := range strings.Split(pointer, "/")[1:] {
		part = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
		switch here := value.(type) {
		case map[string]any:
			value = here[part]
		case []any:
			index, err := strconv.Atoi(part)
			if index < 0 {
				index += len(here)
			}
			if err != nil || index < 0 || index >= len(here) {
				return nil
			}
			value = here[index]
		default:
			return nil
		}
	}
	return value
}

var variable = regexp.MustCompile(`\$\{(\w+)\}`)

func (r *run) filled(value any) any {
	switch value := value.(type) {
	case string:
		if whole := variable.FindStringSubmatch(value); whole != nil && whole[0] == value {
			return r.value(whole[1])
		}
		return variable.ReplaceAllStringFunc(value, func(found string) string {
			return fmt.Sprint(r.value(found[2 : len(found)-1]))
		})
	case []any:
		out := make([]any, len(value))
		for index, item := range value {
			out[index] = r.filled(item)
		}
		return out
	case map[string]any:
		if repeat, ok := value["$repeat"].([]any); ok {
			return strings.Repeat(fmt.Sprint(repeat[0]), int(repeat[1].(float64)))
		}
		out := map[string]any{}
		for name, inner := range value {
			out[name] = r.filled(inner)
		}
		return out
	}
	return value
}

func (r *run) value(name string) any {
	value, ok := r.known[name]
	if !ok {
		fail(fmt.Errorf("nothing is called %q", name))
	}
	return value
}

// written is an error of the SDK as the harness wants it; any other is given back.
func written(err error) (any, error) {
	var refused *hostel.MeshError
	var house *hostel.HouseError
	var turn *hostel.TurnFailed
	var lost *hostel.ConnectionError
	var unclear *hostel.DiscoveryError
	switch {
	case errors.As(err, &refused):
		var field any
		if refused.Field != "" {
			field = refused.Field
		}
		return map[string]any{"status": refused.Status, "code": refused.Code, "field": field}, nil
	case errors.As(err, &house):
		return map[string]any{"code": house.Code, "message": house.Message}, nil
	case errors.As(err, &turn):
		return map[string]any{"code": "turn_" + turn.Turn.Outcome, "message": turn.Error()}, nil
	case errors.As(err, &lost):
		return map[string]any{"code": lost.Code}, nil
	case errors.As(err, &unclear):
		return map[string]any{"code": unclear.Code}, nil
	}
	return nil, err
}

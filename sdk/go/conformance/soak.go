package main

import (
	"bufio"
	"context"
	"encoding/json"
	"sync"
	"time"

	hostel "hostel/sdk/go"
)

// runSoak sends what it is told to and writes down what comes, while daemons are killed.
func runSoak(ctx context.Context, started lab, input *bufio.Scanner) error {
	at := started.Members["alice"]
	alice, err := hostel.New(hostel.Options{DaemonDir: at.DaemonDir, Mesh: at.Mesh, Timeout: 2 * time.Minute})
	if err != nil {
		return err
	}
	bob, err := started.mesh("bob")
	if err != nil {
		return err
	}
	stream, err := bob.Events(ctx, hostel.EventOptions{Events: []string{hostel.EventMessage}})
	if err != nil {
		return err
	}
	listened := make(chan error, 1)
	go func() {
		var failure error
		stream.All()(func(event hostel.Event, err error) bool {
			if err != nil {
				failure = err
				return false
			}
			if message := event.Message(); message != nil {
				say(map[string]any{"event": event.ID, "client_message_id": message.ClientMessageID})
			}
			return true
		})
		listened <- failure
	}()
	say(map[string]any{"ready": true})
	var sending sync.WaitGroup
	slots := make(chan struct{}, 8)
	for input.Scan() {
		var told struct{ Send, To, Message string }
		if err := json.Unmarshal(input.Bytes(), &told); err != nil {
			return err
		}
		slots <- struct{}{}
		sending.Add(1)
		go func() {
			defer func() { <-slots; sending.Done() }()
			_, err := alice.Send(ctx, hostel.SendRequest{To: told.To, Message: told.Message, ClientMessageID: told.Send})
			if err != nil {
				say(map[string]any{"failed": told.Send, "error": err.Error()})
				return
			}
			say(map[string]any{"sent": told.Send})
		}()
	}
	sending.Wait()
	if err := stream.Close(); err != nil {
		return err
	}
	if err := <-listened; err != nil {
		return err
	}
	return input.Err()
}

// Command mention-bot answers whoever mentions it with what an agent says.
//
//	mention-bot -agent echo -place mention-bot.place
//
// The place in the stream is kept in a file, so that what comes while the bot is down is answered when it is back. An
// answer has an id made of the question's: one that was sent before the bot was killed is not sent again.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"

	hostel "hostel/sdk/go"
)

func main() {
	agent := flag.String("agent", "echo", "who answers")
	place := flag.String("place", "mention-bot.place", "where the place in the stream is kept")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *agent, *place); err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

func run(ctx context.Context, agent, place string) error {
	mesh, err := hostel.Connect(ctx, hostel.Options{})
	if err != nil {
		return err
	}
	house, err := hostel.ConnectHouse(ctx, hostel.HouseOptions{})
	if err != nil {
		return err
	}
	defer house.Close()
	// The same name each time: the session is made once and found again.
	session, err := house.CreateSession(ctx, hostel.SessionNewParams{
		AgentAlias: agent, SessionID: "mention-bot-" + mesh.Name(), Name: "mention bot", Mode: hostel.ModePlan,
	})
	if err != nil {
		return err
	}
	last, err := os.ReadFile(place)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	stream, err := mesh.Events(ctx, hostel.EventOptions{
		Events: []string{hostel.EventMessage}, LastEventID: strings.TrimSpace(string(last)),
	})
	if err != nil {
		return err
	}
	defer stream.Close()
	log.Printf("listening in %s", mesh.Name())
	for {
		event, err := stream.Next(ctx)
		if err != nil {
			return err
		}
		if message := event.Message(); message != nil && isForUs(message) {
			if err := answer(ctx, mesh, session, message); err != nil {
				return err
			}
		}
		if event.ID != "" {
			if err := keep(place, event.ID); err != nil {
				return err
			}
		}
	}
}

// isForUs leaves alone what is for a session of ours, or could not be opened.
func isForUs(message *hostel.MessageEvent) bool {
	return message.Mention && message.Body != nil && message.RecipientKind == "member"
}

func answer(ctx context.Context, mesh *hostel.Mesh, session *hostel.Session, message *hostel.MessageEvent) error {
	prompt := fmt.Sprintf("%s writes:\n\n%s", message.SenderName, *message.Body)
	var text string
	turn, err := session.Prompt(ctx, prompt, hostel.PromptOptions{
		// It may talk; what it wants to do on this machine is refused.
		OnApproval: func(context.Context, hostel.Update) (hostel.Decision, error) { return hostel.DecisionReject, nil },
	})
	var failed *hostel.TurnFailed
	switch {
	case errors.As(err, &failed):
		text = "I could not answer that: " + failed.Error()
	case err != nil:
		return err
	default:
		text = turn.Content
	}
	id := "answer-" + message.ID
	if message.Topic != nil {
		_, err = mesh.Post(ctx, hostel.PostRequest{Topic: *message.Topic, Message: text, ReplyToID: message.ID, ClientMessageID: id})
	} else {
		_, err = mesh.Send(ctx, hostel.SendRequest{To: message.SenderPubkey, Message: text, ReplyToID: message.ID, ClientMessageID: id})
	}
	// It may have been answered before, in other words.
	if err != nil && !errors.Is(err, hostel.Code("idempotency_key_reused")) {
		return err
	}
	log.Printf("answered %s", message.SenderName)
	return nil
}

func keep(place, id string) error {
	if err := os.WriteFile(place+".new", []byte(id), 0o600); err != nil {
		return err
	}
	return os.Rename(place+".new", place)
}

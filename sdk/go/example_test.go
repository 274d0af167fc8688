package hostel_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	hostel "hostel/sdk/go"
)

func ExampleMesh_Send() {
	ctx := context.Background()
	mesh, err := hostel.Connect(ctx, hostel.Options{})
	if err != nil {
		log.Fatal(err)
	}
	sent, err := mesh.Send(ctx, hostel.SendRequest{To: "bob", Message: "the disk is full", ClientMessageID: "disk-web-3-17"})
	switch {
	case errors.Is(err, hostel.Code("peer_not_found")):
		fmt.Println("nobody is called bob")
	case err != nil:
		log.Fatal(err)
	default:
		fmt.Println(sent.Status)
	}
}

func ExampleMesh_Events() {
	ctx := context.Background()
	mesh, err := hostel.Connect(ctx, hostel.Options{})
	if err != nil {
		log.Fatal(err)
	}
	stream, err := mesh.Events(ctx, hostel.EventOptions{Events: []string{hostel.EventMessage}})
	if err != nil {
		log.Fatal(err)
	}
	defer stream.Close()
	for {
		event, err := stream.Next(ctx)
		if err != nil {
			log.Fatal(err)
		}
		if message := event.Message(); message != nil && message.Body != nil {
			fmt.Println(message.SenderName, *message.Body)
		}
	}
}

func ExampleSession_Prompt() {
	ctx := context.Background()
	house, err := hostel.ConnectHouse(ctx, hostel.HouseOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer house.Close()
	session, err := house.CreateSession(ctx, hostel.SessionNewParams{AgentAlias: "claude", Mode: hostel.ModeAsk})
	if err != nil {
		log.Fatal(err)
	}
	turn, err := session.Prompt(ctx, "Why is the build red?", hostel.PromptOptions{
		OnApproval: func(_ context.Context, request hostel.Update) (hostel.Decision, error) {
			if request.ToolName == "Read" {
				return hostel.DecisionAllowOnce, nil
			}
			return hostel.DecisionReject, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(turn.Content)
}

package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"strings"

	"oneeffect/emulator/door"
	"oneeffect/emulator/servicebus"
)

// webSocketPath is where Service Bus speaks AMQP over WebSocket.
const webSocketPath = "/$servicebus/websocket"

// serviceBus is the namespace's side of a door: AMQP by itself or over
// WebSocket, the management API, and the health that the official emulator tells.
func serviceBus(broker *servicebus.Server, log *slog.Logger) door.Door {
	amqp := func(ctx context.Context, c net.Conn) {
		if err := broker.ServeConn(ctx, c); err != nil && ctx.Err() == nil {
			log.LogAttrs(ctx, slog.LevelInfo, "AMQP connection ended",
				slog.String("peer", c.RemoteAddr().String()), slog.Any("err", err))
		}
	}
	webSocket, management := door.WebSocket(amqp), broker.Admin()
	return door.Door{
		Log:  log,
		AMQP: amqp,
		HTTP: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case strings.EqualFold(r.URL.Path, webSocketPath):
				webSocket.ServeHTTP(w, r)
			case r.URL.Path == "/health" && !r.URL.Query().Has("api-version"): // which a queue of that name has
				health(w)
			default:
				management.ServeHTTP(w, r)
			}
		}),
	}
}

// health answers as the official emulator does. Who gets an answer has found us well.
func health(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(struct { // the client has gone, or has it
		Status  string `json:"status"`
		Message string `json:"message"`
	}{"healthy", "Service is healthy."})
}

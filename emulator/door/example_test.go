package door_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"oneeffect/emulator/door"
)

// One address answers whoever speaks one of its protocols, and tells others which these are.
func Example() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	d := door.Door{
		HTTP: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "HTTP: %s", r.URL.Path) }),
		AMQP: func(_ context.Context, c net.Conn) {
			defer c.Close()
			header := make([]byte, 8)
			_, _ = io.ReadFull(c, header) // what was looked at is still to be read
			fmt.Fprintf(c, "AMQP: % x", header)
		},
		Log: slog.New(slog.DiscardHandler),
	}
	ctx, stop := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() { d.Serve(ctx, listener, func(err error) { log.Fatal(err) }) })

	for _, first := range []string{"GET /health HTTP/1.0\r\n\r\n", "AMQP\x00\x01\x00\x00", "HELO here\r\n"} {
		c, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			log.Fatal(err)
		}
		fmt.Fprint(c, first)
		said, err := io.ReadAll(c)
		if err := errors.Join(err, c.Close()); err != nil {
			log.Fatal(err)
		}
		fmt.Println(string(said[bytes.LastIndexByte(bytes.TrimSpace(said), '\n')+1:]))
	}
	stop()
	serving.Wait() // nothing that it has started is left
	// Output:
	// HTTP: /health
	// AMQP: 41 4d 51 50 00 01 00 00
	// This port speaks AMQP 1.0, HTTP/1.1. The connection began with 48 45 4c 4f 20 68 65 72, which is none of these.
}

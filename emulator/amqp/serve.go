package amqp

import (
	"context"
	"net"
)

func (o Options) withDefaults() Options { return o }

func serve(ctx context.Context, nc net.Conn, h Handler, o Options) error { panic("todo") }

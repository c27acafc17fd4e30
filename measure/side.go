package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

// LaunchSelf starts this program once more, as another process that its argument makes something else of: a server that
// is compared with, or that something is sent to.
func LaunchSelf(ctx context.Context, command string) (*Server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	return Launch(ctx, nil, self, command)
}

// Serve is such a server: it says its address under a name, as Launch reads it, and answers until the context ends.
func Serve(ctx context.Context, name string, h http.Handler, stdout io.Writer) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	fmt.Fprintf(stdout, "%s %s\nready\n", name, listener.Addr())
	web := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(listener) }() // received below
	select {
	case err = <-ended:
	case <-ctx.Done():
		err = errors.Join(web.Close(), <-ended)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve: %w", err)
}

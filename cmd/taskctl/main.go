// Command taskctl is the operator's command line. It works on Azure and on the
// emulators alike: without any configuration on those that `make run` starts.
//
// Each command is a file of this folder and a line in root.go. A command returns
// its error with what to do next (errors.go), prints through output.go, reaches the
// orchestrator's API through api.go, and broker and store through app.
package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"oneeffect/cmd/internal/process"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// run is the program; it returns the exit code.
func run(ctx context.Context, args []string, env process.Environment, stdout, stderr io.Writer) int {
	a := &app{env: env, stdout: stdout, stderr: stderr, client: &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone(), CheckRedirect: follows}}
	defer a.client.CloseIdleConnections()
	root := a.root()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	addCompletion(root)
	return a.exit(mistyped(root.ExecuteContextC(ctx)))
}

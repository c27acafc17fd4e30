package inprocess_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"syscall"

	"oneeffect/emulator/inprocess"
)

// A client sees of a handler what it would see over a socket: also that the connection breaks.
func Example() {
	transport := inprocess.Transport(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/broken" {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprintf(w, "%s of %s", r.URL.Path, r.Host)
	}))
	defer transport.Close() // waits for the handlers
	client := &http.Client{Transport: transport}

	response, err := client.Get("http://nowhere.example/whole")
	if err != nil {
		log.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		log.Fatal(err)
	}
	fmt.Println(response.Status, string(body))

	_, err = client.Get("http://nowhere.example/broken")
	fmt.Println("connection reset:", errors.Is(err, syscall.ECONNRESET))
	// Output:
	// 200 OK /whole of nowhere.example
	// connection reset: true
}

package downstream_test

import (
	"fmt"
	"strings"

	"oneeffect/internal/downstream"
)

// A file is read whole: every mistake is named at once, with its line.
func ExampleReadHandlers() {
	const file = `
- type: customer.create
  request: { url: "${CRM_URL}/customers", timeout: soon }
  idempotency: { honoured: true }
- type: letter.print
  request: { url: "https://print.example/letters" }
`
	_, err := downstream.ReadHandlers(strings.NewReader(file), func(string) string { return "" })
	fmt.Println(err)

	declared, err := downstream.ReadHandlers(strings.NewReader(`
- type: letter.print
  request: { url: "https://print.example/letters" }
  idempotency: { honoured: false }
`), func(string) string { return "" })
	fmt.Println(declared[0].Type, declared[0].Requests[0].Keyed, err)
	// Output:
	// read handlers: line 3: the variable CRM_URL is not set
	// line 3: "soon" is not a positive duration such as 20s or 5m
	// line 3: url is not of the form http(s)://host/path; credentials belong into auth
	// line 5: idempotency: { honoured: true or false } is missing: every retry is computed from it
	// letter.print false <nil>
}

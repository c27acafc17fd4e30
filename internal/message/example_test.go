package message_test

import (
	"fmt"

	"oneeffect/internal/message"
)

// The key names the work, and nothing of who does it or how often: every worker and
// every run sends the same one.
func ExampleKey() {
	fmt.Println(message.Key("82f3", ""))
	fmt.Println(message.Key("82f3", "charge"))
	// Output:
	// 82f3
	// 82f3/charge
}

package horizon_test

import (
	"fmt"
	"time"

	"oneeffect/internal/horizon"
)

// A claim that is forgotten while messages of its task can still live: by itself each
// of the two numbers is fine.
func ExampleCheck() {
	s := horizon.Defaults()
	s.Worker.Keep = horizon.Is("-keep", 7*24*time.Hour)
	violations, _ := horizon.Check(s)
	for _, v := range violations {
		fmt.Println(v.Relation+":", v.Else)
		fmt.Println("remedy:", v.Remedy)
	}
	// Output:
	// H11: a claim is forgotten while a message of it lives: a second effect
	// remedy: lower -max-attempts or keyed retry.backoff; or raise -keep
	// H11: a claim is forgotten while a message of it lives: a second effect
	// remedy: lower -max-attempts; or raise -keep
}

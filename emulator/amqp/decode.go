package amqp

// Code is the constructor of an encoded value (1.6): its type and width.
type Code byte

// Decode decodes the first value of the input and returns what follows it. The value keeps no part of the input.
func Decode(b []byte) (v any, rest []byte, err error) { panic("todo") }

type fieldReader struct{}

func widest(v any) Code { panic("todo") }

package main

import (
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"oneeffect/emulator/cosmos"
	"oneeffect/emulator/servicebus"
)

// settings is what the flags say.
type settings struct {
	amqp, cosmos, downstream, control string // addresses

	config    string // path of the entities' configuration, "" for the built-in one
	sasKey    string
	cosmosKey string
	expose    bool
}

// parse reads the flags. It returns flag.ErrHelp after printing them, when asked to.
func parse(args []string, stdout io.Writer) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("emulator", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // errors are returned, not printed twice
	flags.Usage = func() {}
	flags.StringVar(&s.amqp, "amqp", "127.0.0.1:5672", "address of Service Bus, `host:port`; port 0 is any free one")
	flags.StringVar(&s.cosmos, "cosmos", "127.0.0.1:8081", "address of Cosmos DB, `host:port`")
	flags.StringVar(&s.downstream, "downstream", "127.0.0.1:8082", "address of the CRM and the print shop, `host:port`")
	flags.StringVar(&s.control, "control", "127.0.0.1:8084", "address of rules, events and clock, `host:port`")
	flags.StringVar(&s.config, "config", "", "queues and topics, a `file` in the official emulator's format (default: emulator/config.json, built in)")
	flags.StringVar(&s.sasKey, "sas-key", servicebus.DefaultKey, "`key` of "+servicebus.DefaultKeyName)
	flags.StringVar(&s.cosmosKey, "cosmos-key", cosmos.EmulatorKey, "account `key`, in base64")
	flags.BoolVar(&s.expose, "expose", false, "allow addresses that other machines can reach; the keys are public")
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(stdout, "emulator: Service Bus, Cosmos DB and two downstream systems on this machine")
		flags.SetOutput(stdout)
		flags.PrintDefaults()
		return s, err
	}
	if err != nil {
		return s, fmt.Errorf("%w; emulator -h lists the flags", err)
	}
	var mistakes []error
	if flags.NArg() > 0 {
		mistakes = append(mistakes, fmt.Errorf("unexpected argument %s: there are only flags; emulator -h lists them",
			strings.Join(flags.Args(), " ")))
	}
	if s.sasKey == "" {
		mistakes = append(mistakes, errors.New("-sas-key: cannot be empty"))
	}
	if key, err := base64.StdEncoding.DecodeString(s.cosmosKey); err != nil || len(key) == 0 {
		mistakes = append(mistakes, errors.New("-cosmos-key: must be base64, like the key of an account"))
	}
	return s, errors.Join(mistakes...)
}

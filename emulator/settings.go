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
	amqp                             list   // addresses
	cosmos, downstream, control, msi string // addresses, msi "" for none

	config    string // path of the entities' configuration, "" for the built-in one
	sasKey    string
	cosmosKey string
	caFile    string // where the certificate authority is written, "" for nowhere
	tlsHosts  list   // what the certificate is good for, besides the addresses
	expose    bool
}

// list is a flag that may be given several times, or once with commas. The first
// time replaces the default.
type list struct {
	values []string
	given  bool
}

func (l *list) String() string { return strings.Join(l.values, ",") }

func (l *list) Set(text string) error {
	if !l.given {
		l.values, l.given = nil, true
	}
	for value := range strings.SplitSeq(text, ",") {
		l.values = append(l.values, strings.TrimSpace(value))
	}
	return nil
}

// parse reads the flags. It returns flag.ErrHelp after printing them, when asked to.
func parse(args []string, stdout io.Writer) (settings, error) {
	s := settings{amqp: list{values: []string{"127.0.0.1:5672"}}}
	flags := flag.NewFlagSet("emulator", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // errors are returned, not printed twice
	flags.Usage = func() {}
	flags.Var(&s.amqp, "amqp", "addresses of Service Bus, each `host:port`; port 0 is any free one; several times, or with commas")
	flags.StringVar(&s.cosmos, "cosmos", "127.0.0.1:8081", "address of Cosmos DB, `host:port`")
	flags.StringVar(&s.downstream, "downstream", "127.0.0.1:8082", "address of the CRM and the print shop, `host:port`")
	flags.StringVar(&s.control, "control", "127.0.0.1:8084", "address of rules, events and clock, `host:port`")
	flags.StringVar(&s.msi, "msi", "", "address of a managed identity, `host:port`, for IDENTITY_ENDPOINT=http://host:port/msi (default: none)")
	flags.StringVar(&s.config, "config", "", "queues and topics, a `file` in the official emulator's format (default: emulator/config.json, built in)")
	flags.StringVar(&s.sasKey, "sas-key", servicebus.DefaultKey, "`key` of "+servicebus.DefaultKeyName)
	flags.StringVar(&s.cosmosKey, "cosmos-key", cosmos.EmulatorKey, "account `key`, in base64")
	flags.StringVar(&s.caFile, "ca-file", "", "write the certificate authority of this run to a `file`, for clients that come by TLS")
	flags.Var(&s.tlsHosts, "tls-host", "`host` that clients reach the emulator by, for its certificate; several times, or with commas")
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

package main

import (
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"oneeffect/emulator/cosmos"
	"oneeffect/emulator/servicebus"
)

// settings is what the flags say.
type settings struct {
	amqp                             list   // addresses
	cosmos, downstream, control, msi string // addresses, msi "" for none

	config   string // path of the entities' configuration, "" for the built-in one
	tier     string // of Service Bus
	sasKey   string
	pace     time.Duration
	compute  string // address of the account's second gateway, "" for none
	account  cosmos.Options
	caFile   string // where the certificate authority is written, "" for nowhere
	tlsHosts list   // what the certificate is good for, besides the addresses
	expose   bool

	data       string // folder that Service Bus and Cosmos DB keep everything in, "" for none
	cpuProfile string // where a CPU profile of the run is written, "" for nowhere
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
	flags.StringVar(&s.compute, "cosmos-compute", "", "address of the same account behind the gateway that takes every item id, `host:port` (default: none)")
	flags.StringVar(&s.account.Endpoint, "cosmos-endpoint", "", "`URL` that the account sends its clients to (default: where they have found it)")
	flags.StringVar(&s.account.Consistency, "cosmos-consistency", "Session", "default consistency `level` of the account")
	flags.StringVar(&s.downstream, "downstream", "127.0.0.1:8082", "address of the CRM and the print shop, `host:port`")
	flags.StringVar(&s.control, "control", "127.0.0.1:8084", "address of rules, events and clock, `host:port`")
	flags.StringVar(&s.msi, "msi", "", "address of a managed identity, `host:port`, for IDENTITY_ENDPOINT=http://host:port/msi (default: none)")
	flags.StringVar(&s.config, "config", "", "queues and topics, a `file` in the official emulator's format (default: emulator/config.json, built in)")
	flags.StringVar(&s.tier, "tier", servicebus.Standard, "`tier` of Service Bus: Standard, Premium, or Any, which takes what either does")
	flags.StringVar(&s.sasKey, "sas-key", servicebus.DefaultKey, "`key` of "+servicebus.DefaultKeyName+", and of NoManage, SendOnly and ListenOnly, which allow less")
	flags.DurationVar(&s.pace, "pace", 0, "least `duration` between two deliveries on one link of Service Bus, for clients that rely on a slow network")
	flags.StringVar(&s.account.Key, "cosmos-key", cosmos.EmulatorKey, "account `key`, in base64")
	flags.StringVar(&s.caFile, "ca-file", "", "write the certificate authority of this run to a `file`, for clients that come by TLS")
	flags.Var(&s.tlsHosts, "tls-host", "`host` that clients reach the emulator by, for its certificate; several times, or with commas")
	flags.BoolVar(&s.expose, "expose", false, "allow addresses that other machines can reach; the keys are public")
	flags.StringVar(&s.data, "data", "", "`folder` in which Service Bus and Cosmos DB keep everything beyond the end of the emulator; delete it to start afresh (default: in memory)")
	flags.StringVar(&s.cpuProfile, "cpuprofile", "", "write a CPU profile of the run to a `file`, for go tool pprof")
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
	if s.pace < 0 {
		mistakes = append(mistakes, fmt.Errorf("-pace %v: cannot be negative", s.pace))
	}
	if tiers := servicebus.Tiers(); !slices.Contains(tiers, s.tier) {
		mistakes = append(mistakes, fmt.Errorf("-tier %s: want one of %s", s.tier, strings.Join(tiers, ", ")))
	}
	if s.sasKey == "" {
		mistakes = append(mistakes, errors.New("-sas-key: cannot be empty"))
	}
	if key, err := base64.StdEncoding.DecodeString(s.account.Key); err != nil || len(key) == 0 {
		mistakes = append(mistakes, errors.New("-cosmos-key: must be base64, like the key of an account"))
	}
	if levels := cosmos.ConsistencyLevels(); !slices.Contains(levels, s.account.Consistency) {
		mistakes = append(mistakes, fmt.Errorf("-cosmos-consistency %s: want one of %s", s.account.Consistency, strings.Join(levels, ", ")))
	}
	if u, err := url.Parse(s.account.Endpoint); err != nil || s.account.Endpoint != "" && u.Host == "" {
		mistakes = append(mistakes, fmt.Errorf("-cosmos-endpoint %s: want a URL, like https://127.0.0.1:8081/", s.account.Endpoint))
	}
	return s, errors.Join(mistakes...)
}

package main

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
)

// Where the emulator listens, in the namespace. Service Bus has an address other
// than 127.0.0.1, where a test of azservicebus wants to be refused.
const (
	serviceBusHost = "127.0.0.9"
	identityPort   = "15999"
	key            = "c2VjcmV0"
	cosmosPort     = "8081"

	// cosmosKey is the one that every Cosmos DB emulator is known by.
	cosmosKey = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="
)

//go:embed testdata/azservicebus.json
var entities []byte

// rigFor says what a suite's tests run against.
func (p plan) rigFor(suite string) (rig, error) {
	switch suite {
	case "azservicebus":
		return p.serviceBusRig()
	case "azcosmos":
		return p.cosmosRig(), nil
	}
	return rig{}, fmt.Errorf("nothing is known about what it runs against")
}

// authority is where the emulator writes the certificate that its clients trust.
func (p plan) authority() string { return filepath.Join(p.Work, "ca.pem") }

// serviceBusRig is a namespace that serves AMQP on 5671, WebSockets and the
// management API on 443, and tokens of a managed identity.
func (p plan) serviceBusRig() (rig, error) {
	config := filepath.Join(p.Work, "azservicebus.json")
	if err := os.WriteFile(config, entities, 0o600); err != nil {
		return rig{}, fmt.Errorf("write the entities that exist beforehand: %w", err)
	}
	env := []string{
		"AZURE_RECORD_MODE=live",
		"SSL_CERT_FILE=" + p.authority(),
		"AZURE_TOKEN_CREDENTIALS=ManagedIdentityCredential",
		"IDENTITY_ENDPOINT=http://" + serviceBusHost + ":" + identityPort + "/msi",
		"IDENTITY_HEADER=x",
		"SERVICEBUS_ENDPOINT=" + serviceBusHost,
		"SERVICEBUS_ENDPOINT_PREMIUM=" + serviceBusHost,
	}
	for variable, keyName := range map[string]string{
		"":             "RootManageSharedAccessKey",
		"_PREMIUM":     "RootManageSharedAccessKey",
		"_NO_MANAGE":   "NoManage",
		"_SEND_ONLY":   "SendOnly",
		"_LISTEN_ONLY": "ListenOnly",
	} {
		env = append(env, "SERVICEBUS_CONNECTION_STRING"+variable+"="+connectionString(keyName))
	}
	return rig{env: env, flags: []string{
		"-amqp", serviceBusHost + ":5671," + serviceBusHost + ":443",
		"-msi", serviceBusHost + ":" + identityPort,
		"-sas-key", key,
		"-tier", "Any", // one namespace in the place of a Standard and a Premium one
		"-pace", "200us", // a test wants a broker that cannot deliver 1000 messages in 20 ms
		"-config", config,
		"-ca-file", p.authority(),
		"-cosmos", "127.0.0.1:0", "-downstream", "127.0.0.1:0", "-control", "127.0.0.1:0",
	}}, nil
}

func connectionString(keyName string) string {
	return "Endpoint=sb://" + serviceBusHost + "/;SharedAccessKeyName=" + keyName + ";SharedAccessKey=" + key
}

// cosmosRig is an account as azcosmos's tests expect the official emulator to be:
// strongly consistent, and on 8903 behind the gateway that takes every item id.
// The tests share caches of what they have found behind an endpoint, so each has
// an account of its own.
func (p plan) cosmosRig() rig {
	return rig{
		alone: true,
		env:   []string{"EMULATOR=true", "SSL_CERT_FILE=" + p.authority()},
		flags: []string{
			"-cosmos", "127.0.0.1:" + cosmosPort,
			"-cosmos-compute", "127.0.0.1:8903",
			"-cosmos-endpoint", "https://127.0.0.1:8081/",
			"-cosmos-consistency", "Strong",
			"-ca-file", p.authority(),
			"-amqp", "127.0.0.1:0", "-downstream", "127.0.0.1:0", "-control", "127.0.0.1:0",
		},
	}
}

// cosmosFlags are those of an account as it is by default, for a client that goes
// where the account document says.
func (p plan) cosmosFlags() []string {
	return []string{
		"-cosmos", "127.0.0.1:" + cosmosPort,
		"-ca-file", p.authority(),
		"-amqp", "127.0.0.1:0", "-downstream", "127.0.0.1:0", "-control", "127.0.0.1:0",
	}
}

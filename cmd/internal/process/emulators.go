package process

import (
	"errors"
	"strings"
)

// What every emulator of Cosmos DB and of Service Bus is known by. Both stand in the
// vendor's documentation: they are good for an emulator on loopback, and no secrets.
const (
	emulatorKey    = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="
	emulatorStore  = "http://127.0.0.1:8081"
	emulatorBroker = "Endpoint=sb://127.0.0.1:5672;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"
)

// OrEmulators fills in what nobody has said, for a command that a person types: the
// emulators at the addresses that `make run` gives them. If one of broker and store
// is elsewhere, the other is not guessed: half a command in Azure and half of it on
// this machine is nobody's wish.
func (s *Settings) OrEmulators() {
	broker := s.connectionString != "" || s.Namespace != ""
	_, storeHere := OnLoopback(s.Endpoint)
	brokerHere := strings.Contains(s.connectionString, "UseDevelopmentEmulator=true")
	if !broker && (s.Endpoint == "" || storeHere) {
		s.connectionString = emulatorBroker
	}
	if s.Endpoint == "" && (!broker || brokerHere) {
		s.Endpoint = emulatorStore
	}
	if scheme, here := OnLoopback(s.Endpoint); here && scheme == "http" && s.cosmosKey == "" {
		s.cosmosKey = emulatorKey
	}
}

// CheckBroker says what is missing to reach Service Bus.
func (s *Settings) CheckBroker() error { return errors.Join(s.checkID(), s.checkBroker()) }

// CheckStore says what is missing to reach Cosmos DB.
func (s *Settings) CheckStore() error { return errors.Join(s.checkID(), s.checkStore()) }

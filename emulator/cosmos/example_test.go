package cosmos_test

import (
	"context"
	"fmt"
	"log"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"oneeffect/emulator/control"
	"oneeffect/emulator/cosmos"
)

// A write is applied and its answer is lost: the client sees an error, and the item is there.
func Example() {
	hub := control.New()
	server := cosmos.New(hub, cosmos.Options{})
	defer server.Close()
	defer hub.Close() // first: it lets go of whatever a rule still holds

	credential, err := azcosmos.NewKeyCredential(cosmos.EmulatorKey)
	if err != nil {
		log.Fatal(err)
	}
	client, err := azcosmos.NewClientWithKey("http://localhost:8081/", credential, &azcosmos.ClientOptions{
		ClientOptions: azcore.ClientOptions{
			Transport: server.Transport(), // no socket, and nothing listens on 8081
			Telemetry: policy.TelemetryOptions{ApplicationID: "worker-1"},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()
	if _, err := client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: "shop"}, nil); err != nil {
		log.Fatal(err)
	}
	database, err := client.NewDatabase("shop")
	if err != nil {
		log.Fatal(err)
	}
	properties := azcosmos.ContainerProperties{ID: "orders", PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/id"}}}
	if _, err := database.CreateContainer(ctx, properties, nil); err != nil {
		log.Fatal(err)
	}
	orders, err := database.NewContainer("orders")
	if err != nil {
		log.Fatal(err)
	}

	_, err = hub.Arm(control.Rule{
		Match: control.Match{Service: "cosmos", Operation: "create", Entity: "orders", Key: "82f3"},
		When:  "after", Do: "drop",
	})
	if err != nil {
		log.Fatal(err)
	}
	key := azcosmos.NewPartitionKeyString("82f3")
	_, err = orders.CreateItem(ctx, key, []byte(`{"id":"82f3"}`), nil)
	fmt.Println("the write has an answer:", err == nil)
	_, err = orders.ReadItem(ctx, key, "82f3", nil)
	fmt.Println("the item is there:", err == nil)
	// Output:
	// the write has an answer: false
	// the item is there: true
}

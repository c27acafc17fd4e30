package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"oneeffect/infra/check/agree"
)

// flip is one shared value, changed in one place: the first text after an anchor.
type flip struct{ file, anchor, old, new string }

const (
	bus     = "infra/modules/servicebus.bicep"
	store   = "infra/modules/cosmos.bicep"
	apps    = "infra/modules/containerapps.bicep"
	cluster = "infra/modules/aks.bicep"
	config  = "emulator/config.json"
	compose = "infra/compose.yaml"
	base    = "infra/k8s/base/"
	azure   = "infra/k8s/overlays/azure/"
	local   = "infra/k8s/overlays/emulator/"
)

func TestEverySharedValueIsCaughtWhenItIsChangedInOnePlace(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	code, err := agree.Ask(t.Context(), root, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tree, err := agree.Read(root)
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := renderAll(tree)
	if err != nil {
		t.Fatal(err)
	}
	if problems, err := agree.Check(tree, code, rendered); err != nil || len(problems) > 0 {
		t.Fatalf("before anything is changed: %v %v", err, problems)
	}
	all := flips()
	caught := make(chan bool, len(all))
	t.Run("flips", func(t *testing.T) {
		for _, f := range all {
			t.Run(fmt.Sprintf("%s after %s: %s", f.file, f.anchor, f.old), func(t *testing.T) {
				t.Parallel()
				changed, err := tree.With(f.file, f.anchor, f.old, f.new)
				if err != nil {
					t.Fatal(err)
				}
				manifests := rendered
				if strings.HasPrefix(f.file, "infra/k8s/") {
					if manifests, err = renderAll(changed); err != nil {
						caught <- true // kustomize has said it
						return
					}
				}
				problems, err := agree.Check(changed, code, manifests)
				if err == nil && len(problems) == 0 {
					t.Errorf("%q for %q went unnoticed", f.new, f.old)
					return
				}
				caught <- true
			})
		}
	})
	t.Logf("%d of %d caught", len(caught), len(all))
}

func renderAll(tree agree.Tree) (map[string][]byte, error) {
	rendered := map[string][]byte{}
	for _, overlay := range agree.Overlays {
		var err error
		if rendered[overlay], err = render(tree, overlay); err != nil {
			return nil, err
		}
	}
	return rendered, nil
}

func flips() []flip {
	var all []flip
	for _, part := range [][]flip{brokerFlips(), storeFlips(), roleFlips(), processFlips(), clusterFlips(), emulatorFlips(), otherFlips()} {
		all = append(all, part...)
	}
	return all
}

func brokerFlips() []flip {
	all := []flip{{bus, "resource namespace", "disableLocalAuth: true", "disableLocalAuth: false"}}
	received := [][2]string{
		{"lockDuration: 'PT5M'", "lockDuration: 'PT4M'"}, {"maxDeliveryCount: 10", "maxDeliveryCount: 9"},
		{"defaultMessageTimeToLive: 'P14D'", "defaultMessageTimeToLive: 'P13D'"},
		{"deadLetteringOnMessageExpiration: true", "deadLetteringOnMessageExpiration: false"},
		{"requiresSession: false", "requiresSession: true"}, {"name: '", "name: 'x"},
	}
	duplicates := [][2]string{
		{"requiresDuplicateDetection: true", "requiresDuplicateDetection: false"},
		{"duplicateDetectionHistoryTimeWindow: 'PT5M'", "duplicateDetectionHistoryTimeWindow: 'PT6M'"},
	}
	topic := [][2]string{
		{"defaultMessageTimeToLive: 'P14D'", "defaultMessageTimeToLive: 'P13D'"},
		{"requiresDuplicateDetection: false", "requiresDuplicateDetection: true"}, {"name: '", "name: 'x"},
	}
	for anchor, values := range map[string][][2]string{
		"resource tasks '": append(duplicates, received...), "resource taskEvents '": topic, "resource reservations '": topic,
		"resource orchestrator '": received, "resource inventory '": received,
	} {
		for _, v := range values {
			all = append(all, flip{bus, anchor, v[0], v[1]})
		}
	}
	received = [][2]string{
		{`"LockDuration": "PT5M"`, `"LockDuration": "PT4M"`}, {`"MaxDeliveryCount": 10`, `"MaxDeliveryCount": 9`},
		{`"DefaultMessageTimeToLive": "PT1H"`, `"DefaultMessageTimeToLive": "PT30M"`},
		{`"DeadLetteringOnMessageExpiration": true`, `"DeadLetteringOnMessageExpiration": false`},
		{`"RequiresSession": false`, `"RequiresSession": true`},
	}
	for anchor, values := range map[string][][2]string{
		`"Name": "tasks"`: append([][2]string{
			{`"RequiresDuplicateDetection": true`, `"RequiresDuplicateDetection": false`},
			{`"DuplicateDetectionHistoryTimeWindow": "PT5M"`, `"DuplicateDetectionHistoryTimeWindow": "PT4M"`},
		}, received...),
		`"Name": "orchestrator"`: received, `"Name": "inventory"`: received,
		`"Name": "task-events"`: {{`"RequiresDuplicateDetection": false`, `"RequiresDuplicateDetection": true`}},
		`"Queues"`:              {{`"tasks"`, `"task"`}}, `"Topics"`: {{`"task-events"`, `"events"`}, {`"orchestrator"`, `"o"`}, {`"reservations"`, `"r"`}, {`"inventory"`, `"i"`}},
	} {
		for _, v := range values {
			all = append(all, flip{config, anchor, v[0], v[1]})
		}
	}
	return all
}

func storeFlips() []flip {
	all := []flip{
		{store, "resource account", "'Session'", "'Eventual'"}, {store, "resource account", "enableMultipleWriteLocations: false", "enableMultipleWriteLocations: true"},
		{store, "resource account", "disableLocalAuth: true", "disableLocalAuth: false"}, {store, "resource database", "name: 'oneeffect'", "name: 'other'"},
		{store, "resource executions", "defaultTtl: 7776000", "defaultTtl: 776000"}, {store, "resource executions", "'/status/?'", "'/state/?'"},
		{store, "resource discovery", "readMetadata", "sqlDatabases/containers/items/*"},
	}
	for container, key := range map[string]string{"claims": "/id", "executions": "/executionId", "inventory": "/sku", "webhooks": "/resource"} {
		at := "resource " + container + " '"
		all = append(all, flip{store, at, "'" + key + "'", "'/other'"}, flip{store, at, "name: '" + container, "name: 'x" + container},
			flip{store, at, "id: '" + container, "id: 'x" + container}, flip{store, at, "'/*'", "'/x/*'"}, flip{store, at, "'consistent'", "'none'"},
			flip{store, at, "version: 2", "version: 1"}, flip{store, at, "'Hash'", "'MultiHash'"})
		if container != "executions" {
			all = append(all, flip{store, at, "defaultTtl: -1", "defaultTtl: 100"}, flip{store, at, "includedPaths: []", "includedPaths: [{ path: '/a/?' }]"})
		}
	}
	return all
}

func roleFlips() []flip {
	var all []flip
	for symbol, is := range map[string][3]string{ // who, scope, role
		"workerReceivesTasks": {"worker", "tasks", "receiver"}, "workerSendsTasks": {"worker", "tasks", "sender"}, "workerSendsEvents": {"worker", "taskEvents", "sender"},
		"orchestratorSendsTasks": {"orchestrator", "tasks", "sender"}, "orchestratorReceivesTasks": {"orchestrator", "tasks", "receiver"},
		"orchestratorReceivesEvents": {"orchestrator", "orchestrator", "receiver"}, "projectorReceivesReservations": {"projector", "inventory", "receiver"},
		"scalerSeesTasks": {"scaler", "tasks", "owner"}, "scalerSeesEvents": {"scaler", "orchestrator", "owner"}, "scalerSeesReservations": {"scaler", "inventory", "owner"},
	} {
		at := "resource " + symbol
		other := map[string]string{"worker": "projector", "orchestrator": "worker", "projector": "scaler", "scaler": "worker"}[is[0]]
		all = append(all, flip{bus, at, "scope: " + is[1], "scope: namespace"}, flip{bus, at, "scope: " + is[1], "scope: reservations"},
			flip{bus, at, "principalId: " + is[0], "principalId: " + other},
			flip{bus, at, "roleDefinitionId: " + is[2], "roleDefinitionId: " + map[string]string{"receiver": "owner", "sender": "receiver", "owner": "sender"}[is[2]]})
	}
	for _, id := range []string{"69a216fc", "4f6d3b9b", "090c5cfd"} {
		all = append(all, flip{bus, "", id, "00000000"})
	}
	for symbol, is := range map[string][2]string{
		"workerWritesClaims": {"worker", "claims"}, "orchestratorWritesClaims": {"orchestrator", "claims"}, "orchestratorWritesExecutions": {"orchestrator", "executions"},
		"projectorWritesInventory": {"projector", "inventory"}, "projectorWritesWebhooks": {"projector", "webhooks"},
	} {
		at := "resource " + symbol
		all = append(all, flip{store, at, "/colls/" + is[1] + "'", "/colls/other'"}, flip{store, at, "scope: '${account.id}/dbs/oneeffect/colls/" + is[1] + "'", "scope: account.id"},
			flip{store, at, "principalId: " + is[0], "principalId: operator"})
	}
	for _, f := range [][3]string{
		{"resource probes", "'PT5S'", "'PT6S'"}, {"resource probes", "maxDeliveryCount: 10", "maxDeliveryCount: 9"}, {"resource probes", "name: 'probes'", "name: 'probe'"},
		{"resource evidence", "name: 'evidence'", "name: 'other'"}, {"resource database", "oneeffect-evidence", "oneeffect"}, {"resource inventory", "'/sku'", "'/id'"},
	} {
		all = append(all, flip{"infra/modules/evidence.bicep", f[0], f[1], f[2]})
	}
	return append(all, flip{store, "resource workerDiscovers", "roleDefinitionId: discovery.id", "roleDefinitionId: contributor"})
}

func processFlips() []flip {
	var all []flip
	for _, name := range agree.Processes {
		prefix := "ONEEFFECT_" + strings.ToUpper(name) + "_"
		at := "var " + name + "Environment"
		all = append(all,
			flip{apps, at, prefix + "LOCK', value: '5m'", prefix + "LOCK', value: '4m'"}, flip{apps, at, prefix + "GRACE', value: '90s'", prefix + "GRACE', value: '80s'"},
			flip{apps, at, prefix + "GRACE', value: '90s'", prefix + "GRACE', value: '150s'"}, flip{apps, at, prefix + "LOCK", prefix + "LOCKS"},
			flip{apps, at, prefix + "SERVICEBUS_NAMESPACE", "X"}, flip{apps, at, prefix + "COSMOS_ENDPOINT", "X"}, flip{apps, at, "AZURE_CLIENT_ID", "AZURE_CLIENT"},
			flip{apps, at, "ManagedIdentityCredential", "AzureCLICredential"}, flip{apps, at, "900MiB", "2000MiB"}, flip{apps, at, "http/protobuf", "grpc"}, flip{apps, at, "'0.1'", "'0.2'"},
			flip{apps, "resource " + name + " '", "terminationGracePeriodSeconds: 120", "terminationGracePeriodSeconds: 60"}, flip{apps, "resource " + name + " '", "cooldownPeriod: 600", "cooldownPeriod: 300"},
			flip{apps, "resource " + name + " '", "messageCount: '", "messageCount: '1"}, flip{apps, "resource " + name + " '", "memory: '1Gi'", "memory: '2Gi'"},
			flip{apps, "resource " + name + " '", "'azd-service-name': '" + name, "'azd-service-name': 'x"}, flip{apps, "resource " + name + " '", "name: '" + name + "'", "name: 'x'"},
			flip{base + name + ".yaml", prefix + "LOCK", "5m", "4m"}, flip{base + name + ".yaml", prefix + "GRACE", "90s", "80s"}, flip{base + name + ".yaml", "", prefix + "LOCK", prefix + "LOCKS"},
			flip{base + name + ".yaml", "", "terminationGracePeriodSeconds: 120", "terminationGracePeriodSeconds: 60"}, flip{base + name + ".yaml", "GOMEMLIMIT", "460MiB", "600MiB"},
			flip{base + name + ".yaml", "limits:", "512Mi", "2Gi"}, flip{base + name + ".yaml", "image: ", "oneeffect/" + name, "oneeffect/x"},
			flip{base + name + ".yaml", "kind: ServiceAccount", "name: " + name, "name: x"},
			flip{azure + name + ".yaml", "", "WorkloadIdentityCredential", "ManagedIdentityCredential"}, flip{azure + name + ".yaml", "workload.identity/use", `"true"`, `"false"`},
			flip{azure + name + ".yaml", "", prefix + "SERVICEBUS_NAMESPACE", "X"}, flip{azure + name + ".yaml", "OTLP_ENDPOINT", "4318", "4317"}, flip{azure + name + ".yaml", "", "key: ONEEFFECT_COSMOS_ENDPOINT", "key: X"},
			flip{local + name + ".yaml", prefix + "COSMOS_ENDPOINT", "8081", "8080"}, flip{local + name + ".yaml", "", "SERVICEBUS_CONNECTION_STRING", "X"},
			flip{compose, "  " + name + ":", prefix + "LOCK: 5m", prefix + "LOCK: 4m"}, flip{compose, "  " + name + ":", prefix + "GRACE: 90s", prefix + "GRACE: 80s"},
			flip{compose, "  " + name + ":", "stop_grace_period: 120s", "stop_grace_period: 60s"}, flip{compose, "  " + name + ":", "127.0.0.1:8081", "127.0.0.1:8082"},
			flip{compose, "  " + name + ":", "target: " + name, "target: x"},
			flip{compose, "  " + name + ":", "GOMEMLIMIT: 460MiB", "GOMEMLIMIT: 512MiB"},
		)
	}
	for _, f := range [][3]string{
		{apps, "ONEEFFECT_WORKER_PROBES", "8086"}, {apps, "var workerProbes", "8086"}, {base + "worker.yaml", "ONEEFFECT_WORKER_PROBES", "8086"}, {base + "worker.yaml", "containerPort", "8086"},
	} {
		all = append(all, flip{f[0], f[1], f[2], "9000"})
	}
	for name, port := range map[string]string{"orchestrator": "8080", "projector": "8083"} {
		prefix := "ONEEFFECT_" + strings.ToUpper(name) + "_LISTEN"
		all = append(all,
			flip{apps, prefix, port, "9000"}, flip{apps, "resource " + name + " '", ": " + port, ": 9000"},
			flip{apps, "var " + name + "Probes", "port: " + port, "port: 9000"}, flip{apps, "var " + name + "Probes", "/livez", "/alive"}, flip{apps, "var " + name + "Probes", "/readyz", "/ready"},
			flip{base + name + ".yaml", prefix, port, "9000"}, flip{base + name + ".yaml", "containerPort", port, "9000"}, flip{base + name + ".yaml", "kind: Service\n", port, "9000"},
			flip{base + name + ".yaml", "", "path: /readyz", "path: /ready"}, flip{base + "network.yaml", name + "-called", "port: " + port, "port: 9000"},
			flip{"Dockerfile", "", "EXPOSE " + port, "EXPOSE 9000"},
		)
	}
	return append(all,
		flip{apps, "", "ONEEFFECT_WORKER_MAX_DELIVERY', value: '10'", "ONEEFFECT_WORKER_MAX_DELIVERY', value: '12'"}, flip{apps, "", "'CRM_URL'", "'CRM'"},
		flip{apps, "", "RESERVATION_TTL', value: '336h'", "RESERVATION_TTL', value: '300h'"}, flip{apps, "resource worker", "queueName: 'tasks'", "queueName: 'task'"},
		flip{apps, "resource orchestrator", "subscriptionName: 'orchestrator'", "subscriptionName: 'x'"}, flip{apps, "resource projector", "topicName: 'reservations'", "topicName: 'x'"},
		flip{apps, "", "opentelemetry-collector-contrib:0.161.0", "opentelemetry-collector-contrib:0.160.0"}, flip{apps, "", "OIDC_ISSUER", "OIDC_ISSUERS"},
		flip{apps, "", "ORCHESTRATOR_OIDC_CLIENT", "ORCHESTRATOR_OIDC_CLIENTS"}, flip{apps, "", "ORCHESTRATOR_OIDC_SCOPE", "ORCHESTRATOR_RELAY"}, flip{apps, "", "ORCHESTRATOR_PAGE_URL", "X"},
		flip{azure + "orchestrator.yaml", "ORCHESTRATOR_OIDC_CLIENT", "key: ONEEFFECT_OIDC_CLIENT", "key: X"}, flip{compose, "", "ORCHESTRATOR_OIDC_CLIENT", "ORCHESTRATOR_OIDC_CLIENTS"},
		flip{apps, "resource collector", "900MiB", "1000MiB"}, flip{apps, "resource collector", "memory: '1Gi'", "memory: '4Gi'"},
		flip{azure + "collector.yaml", "GOMEMLIMIT", "460MiB", "512MiB"}, flip{azure + "collector.yaml", "", "GOMEMLIMIT", "GOMEMLIMITS"},
		flip{local + "emulator.yaml", "name: setup", "57MiB", "64MiB"}, flip{local + "emulator.yaml", "", "900MiB", "500MiB"},
		flip{compose, "  setup:", "mem_limit: 64m", "mem_limit: 512m"}, flip{compose, "  downstream:", "GOMEMLIMIT: 900MiB", "GOMEMLIMIT: 900"},
		flip{compose, "x-process:", "mem_limit: 512m", "mem_limit: 2g"},
		flip{base + "worker.yaml", "MAX_DELIVERY", `"10"`, `"12"`}, flip{compose, "MAX_DELIVERY", `"10"`, `"12"`},
		flip{azure + "projector.yaml", "RESERVATION_TTL", "336h", "300h"}, flip{local + "projector.yaml", "RESERVATION_TTL", "1h", "2h"}, flip{compose, "RESERVATION_TTL", "1h", "2h"},
		flip{apps, "var workerEnvironment", "{ name: 'CRM_URL'", "{ name: 'ONEEFFECT_WORKER_LEASE', value: '4m' }\n  { name: 'CRM_URL'"},
	)
}

func clusterFlips() []flip {
	all := []flip{
		{cluster, "resource scalerPods", "kube-system:keda-operator", "keda:keda-operator"},
		{azure + "scaling.yaml", "name: worker", "queueName: tasks", "queueName: task"}, {azure + "scaling.yaml", "name: orchestrator", "subscriptionName: orchestrator", "subscriptionName: x"},
		{azure + "collector.yaml", "kind: Service", "port: 4318", "port: 4317"}, {azure + "collector.yaml", "", "containerPort: 4318", "containerPort: 4319"},
		{azure + "collector.yaml", "", "contrib:0.161.0", "contrib:0.160.0"}, {azure + "network.yaml", "", "port: 5671", "port: 5672"}, {azure + "settings.env", "", "ONEEFFECT_COSMOS_ENDPOINT", "ONEEFFECT_COSMOS"},
		{azure + "kustomization.yaml", "", "namespace: oneeffect", "namespace: other"},
	}
	for _, name := range agree.Processes {
		all = append(all,
			flip{cluster, "resource " + name + "Pods", "oneeffect:" + name, "other:" + name}, flip{cluster, "resource " + name + "Pods", "api://AzureADTokenExchange", "api://x"},
			flip{azure + "scaling.yaml", "\n  name: " + name, "cooldownPeriod: 600", "cooldownPeriod: 300"}, flip{azure + "scaling.yaml", "\n  name: " + name, "stabilizationWindowSeconds: 600", "stabilizationWindowSeconds: 300"},
			flip{azure + "scaling.yaml", "\n  name: " + name, `messageCount: "`, `messageCount: "1`}, flip{azure + "scaling.yaml", "\n  name: " + name, "name: " + name, "name: x"},
			flip{azure + "kustomization.yaml", "", "fieldPath: data.ONEEFFECT_" + strings.ToUpper(name) + "_CLIENT_ID", "fieldPath: data.ONEEFFECT_SCALER_CLIENT_ID"},
		)
	}
	return all
}

func emulatorFlips() []flip {
	var all []flip
	for name, port := range map[string]string{"amqp": "5672", "cosmos": "8081", "downstream": "8082", "control": "8084"} {
		all = append(all, flip{local + "emulator.yaml", "args:", name + "=0.0.0.0:" + port, name + "=0.0.0.0:9000"},
			flip{local + "emulator.yaml", "ports:", "containerPort: " + port, "containerPort: 9000"}, flip{local + "emulator.yaml", "kind: Service", "port: " + port, "port: 9000"})
	}
	return append(all,
		flip{local + "worker.yaml", "CRM_URL", "8082", "8083"}, flip{local + "orchestrator.yaml", "LISTEN", "127.0.0.1:8080", "0.0.0.0:8080"},
		flip{local + "emulator.yaml", "ONEEFFECT_TASKCTL_COSMOS_ENDPOINT", "8081", "8080"}, flip{compose, "CRM_URL", "8082", "8083"}, flip{compose, "\"-downstream\"", "8082", "8083"},
		flip{"emulator/compose.yaml", "", "127.0.0.1:8081:", "127.0.0.1:8082:"}, flip{"emulator/compose.yaml", "", "127.0.0.1:5672:", "127.0.0.1:5673:"},
	)
}

func otherFlips() []flip {
	all := []flip{
		{"Dockerfile", "", "golang:1.26.8", "golang:1.26.7"}, {".github/workflows/ci.yml", "", `go-version: "1.26.8"`, `go-version: "1.26.7"`}, {"Dockerfile", "", "process.version", "process.release"},
		{"Dockerfile", "", "./cmd/projector", "./cmd/project"}, {"Dockerfile", "", "--from=build ", "--from=builder "},
		{azure + "kustomization.yaml", "", "fieldPath: data.ONEEFFECT_SERVICEBUS_NAME", "fieldPath: data.ONEEFFECT_SERVICEBUS_HOST"},
		{azure + "kustomization.yaml", "", "fieldPath: data.ONEEFFECT_SCALER_CLIENT_ID", "fieldPath: data.ONEEFFECT_WORKER_CLIENT_ID"}, {azure + "scaling.yaml", "authenticationRef:", "name: scaler", "name: scaled"},
		{"infra/collector/config.yaml", "", ":-0.0.0.0:4318}", ":-0.0.0.0:4319}"}, {"infra/collector/go.mod", "", "exporter/azuremonitorexporter v0.161.0", "exporter/azuremonitorexporter v0.160.0"},
		{apps, "resource collector", "targetPort: 4318", "targetPort: 4317"},
		{"infra/main.bicep", "module servicebus", "scalerPrincipalId: ", "scalePrincipalId: "}, {"infra/main.bicep", "", "identities.outputs.workerId", "identities.outputs.workId"},
		{"infra/main.bicep", "", "output ONEEFFECT_SERVICEBUS_HOST", "output ONEEFFECT_HOST"}, {"infra/main.bicep", "", "'modules/registry.bicep'", "'modules/register.bicep'"},
		{"infra/main.bicep", "", "location: location", "location: place"}, {"infra/modules/registry.bicep", "", "param location string", "param location string\nparam extra string"},
		{"infra/main.parameters.json", "", `"crmUrl"`, `"crm"`}, {"infra/main.parameters.json", "", "SERVICE_WORKER_IMAGE_NAME", "SERVICE_W_IMAGE_NAME"}, {"infra/abbreviations.json", "", `"cosmosAccount"`, `"cosmos"`},
		{"handlers.yaml", "", "${CRM_URL}", "${CRM_BASE}"}, {"infra/modules/alerts.bicep", "", "'KeyWindowPassed'", "'KeyWindowGone'"}, {"infra/modules/alerts.bicep", "", "oneeffect.outcome", "oneeffect.outcomes"},
		{"infra/modules/alerts.bicep", "resource noHeartbeat", "'projector'", "'project'"}, {"infra/modules/alerts.bicep", "resource deadLetters", "'reservations'", "'reservation'"},
		{"infra/workbook.json", "", "oneeffect.orchestrator.events", "oneeffect.orchestrator.event"},
	}
	for _, name := range agree.Processes {
		all = append(all, flip{"azure.yaml", "\n  " + name + ":", "target: " + name, "target: x"}, flip{"azure.yaml", "services:", "\n  " + name + ":", "\n  x" + name + ":"})
	}
	return all
}

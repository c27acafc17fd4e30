package agree

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// containers: the store has what the code compares it with at taskctl setup.
func (w *world) containers() error {
	w.tables(storeFile)
	return nil
}

// tables holds the containers of a file to the table.
func (w *world) tables(file string) {
	f := w.bicep[file]
	const kind = "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers"
	var made []string
	for _, d := range f.Resources(kind) {
		made = append(made, f.Text(d.Body, "properties", "resource", "id"))
		w.same(file, "the name of "+d.Symbol, f.Text(d.Body, "name"), "its id", f.Text(d.Body, "properties", "resource", "id"))
	}
	var coded []string
	for _, c := range w.code.Facts.Containers {
		coded = append(coded, c.ID)
		for _, d := range f.Resources(kind) {
			if f.Text(d.Body, "name") != c.ID {
				continue
			}
			resource := f.At(d.Body, "properties", "resource")
			paths := func(list ...string) string {
				var all []string
				for _, n := range f.Items(resource, list...) {
					all = append(all, f.Text(n, "path"))
				}
				return strings.Join(all, " ")
			}
			var key []string
			for _, n := range f.Items(resource, "partitionKey", "paths") {
				key = append(key, n.Text)
			}
			for what, is := range map[string][2]string{
				"the partition key":             {strings.Join(key, " "), c.Key},
				"the kind of the partition key": {f.Text(resource, "partitionKey", "kind"), "Hash"},
				"its version":                   {f.Text(resource, "partitionKey", "version"), "2"},
				"defaultTtl":                    {f.Text(resource, "defaultTtl"), strconv.Itoa(c.TTL)},
				"indexingMode":                  {f.Text(resource, "indexingPolicy", "indexingMode"), "consistent"},
				"what is indexed":               {paths("indexingPolicy", "includedPaths"), strings.Join(c.Indexed, " ")},
				"what is not indexed":           {paths("indexingPolicy", "excludedPaths"), "/*"},
			} {
				w.same(file, what+" of "+c.ID, is[0], "internal/cosmos", is[1])
			}
		}
	}
	slices.Sort(made)
	slices.Sort(coded)
	w.same(file, "the list of containers", strings.Join(made, " "), "internal/cosmos", strings.Join(coded, " "))
}

// accounts: what claims rely on of the account, and no way around identities.
func (w *world) accounts() error {
	store, bus := w.bicep[storeFile], w.bicep[busFile]
	for _, d := range store.Resources("Microsoft.DocumentDB/databaseAccounts") {
		w.same(storeFile, "defaultConsistencyLevel", store.Text(d.Body, "properties", "consistencyPolicy", "defaultConsistencyLevel"), "internal/horizon (H28)", "Session")
		w.same(storeFile, "enableMultipleWriteLocations", store.Text(d.Body, "properties", "enableMultipleWriteLocations"), "internal/horizon (H28)", "false")
		w.same(storeFile, "disableLocalAuth", store.Text(d.Body, "properties", "disableLocalAuth"), "the design", "true")
	}
	for _, d := range bus.Resources("Microsoft.ServiceBus/namespaces") {
		w.same(busFile, "disableLocalAuth", bus.Text(d.Body, "properties", "disableLocalAuth"), "the design", "true")
	}
	for _, d := range store.Resources("Microsoft.DocumentDB/databaseAccounts/sqlDatabases") {
		for _, t := range w.targets {
			for _, name := range Processes {
				value, as := w.setting(t.processes[name], "cosmos-database")
				w.same(storeFile, "the database", store.Text(d.Body, "name"), as+" of "+name, value)
			}
		}
	}
	return nil
}

// Ids that the platform fixes.
var busRoles = map[string]string{
	"69a216fc-b8fb-44d8-bc22-1f3c2cd27a39": "send",
	"4f6d3b9b-027b-4f4c-9142-0e5a2a2247e0": "receive",
	"090c5cfd-751d-490a-894a-3ce6f1109419": "own",
}

// roles: every process may do what its wiring does, and nothing else.
func (w *world) roles() error {
	given := map[string][]string{}
	f := w.bicep[busFile]
	for _, d := range f.Resources("Microsoft.Authorization/roleAssignments") {
		who := strings.TrimSuffix(f.Text(d.Body, "properties", "principalId"), "PrincipalId")
		role := f.At(d.Body, "properties", "roleDefinitionId")
		right := ""
		if role != nil && len(role.Nodes) == 2 {
			right = busRoles[f.Resolve(role.Nodes[1]).Text]
		}
		if right == "" {
			w.problem(busFile, "%s gives a role that is not known here", d.Symbol)
		}
		at := w.entityOf(f.Text(d.Body, "scope"))
		if at == "" {
			w.problem(busFile, "%s is scoped to %q, which is no queue, topic or subscription", d.Symbol, f.Text(d.Body, "scope"))
		}
		given[who] = append(given[who], right+" "+at)
	}
	store := w.bicep[storeFile]
	for _, d := range store.Resources("Microsoft.DocumentDB/databaseAccounts/sqlRoleAssignments") {
		who := strings.TrimSuffix(store.Text(d.Body, "properties", "principalId"), "PrincipalId")
		scope := store.Text(d.Body, "properties", "scope")
		_, container, within := strings.Cut(scope, "/colls/")
		switch role := store.Text(d.Body, "properties", "roleDefinitionId"); {
		case strings.HasSuffix(role, "000000000002") && within:
			given[who] = append(given[who], "write "+container)
		case role == "discovery.id" || strings.HasSuffix(role, "000000000001") && who == "operator":
		default:
			w.problem(storeFile, "%s gives %s at %s: nobody may write more than a container", d.Symbol, role, scope)
		}
	}
	for _, d := range store.Resources("Microsoft.DocumentDB/databaseAccounts/sqlRoleDefinitions") {
		for _, permission := range store.Items(d.Body, "properties", "permissions") {
			for _, action := range store.Items(permission, "dataActions") {
				w.same(storeFile, "what "+d.Symbol+" allows", action.Text, "the design", "Microsoft.DocumentDB/databaseAccounts/readMetadata")
			}
		}
	}
	for _, name := range Processes {
		var uses []string
		for _, n := range w.needed[name] {
			uses = append(uses, n.String())
		}
		has := slices.Clone(given[name])
		slices.Sort(has)
		w.same(busFile, "what the identity of "+name+" may do (with "+storeFile+")", strings.Join(has, ", "), "cmd/"+name, strings.Join(uses, ", "))
	}
	w.scaler = given["scaler"]
	return nil
}

// entityOf is the entity that a symbol of the broker's file stands for.
func (w *world) entityOf(symbol string) string {
	f := w.bicep[busFile]
	d := f.Symbol(symbol)
	if d == nil {
		return ""
	}
	switch name := f.Text(d.Body, "name"); strings.TrimPrefix(d.Type, "Microsoft.ServiceBus/namespaces") {
	case "/queues", "/topics":
		return name
	case "/topics/subscriptions":
		return w.entityOf(f.Text(d.Body, "parent")) + "/" + name
	}
	return ""
}

// scalerRoles: the scaler sees what the scale rules look at, and that is what the
// processes take their work from.
func (w *world) scalerRoles() error {
	slices.Sort(w.scaler)
	var seen []string
	for _, name := range Processes {
		seen = append(seen, "own "+w.listened(name))
	}
	slices.Sort(seen)
	w.same(busFile, "what the scaler's identity may do", strings.Join(w.scaler, ", "), "what scale rules look at", strings.Join(seen, ", "))
	return nil
}

// scaling: each process is scaled by what it takes its work from, and alike on both
// targets.
func (w *world) scaling() error {
	w.scaledObjects()
	for _, t := range []*target{w.targets[0], w.target(azure)} {
		for _, name := range Processes {
			p := t.processes[name]
			looks := p.scaled["queueName"]
			if looks == "" {
				looks = p.scaled["topicName"] + "/" + p.scaled["subscriptionName"]
			}
			w.same(t.file, "what "+name+" is scaled by", looks, "cmd/"+name, w.listened(name))
			w.same(t.file, "messageCount of "+name, p.scaled["messageCount"], appsFile, w.targets[0].processes[name].scaled["messageCount"])
			for _, cooldown := range p.cooldowns {
				w.same(t.file, "the cooldown of "+name, cooldown.String(), appsFile, w.targets[0].processes[name].cooldowns[0].String())
			}
		}
	}
	return nil
}

// scaledObjects: KEDA scales what it says, and signs in as the scaler.
func (w *world) scaledObjects() {
	objects := w.overlays[azure]
	settings := named(objects, "ConfigMap", "settings")
	for _, scaled := range find(objects, "ScaledObject") {
		name := text(scaled, "metadata", "name")
		w.same(azure, "what the scaled object "+name+" scales", text(scaled, "spec", "scaleTargetRef", "name"), "its name", name)
		w.same(azure, "the namespace that "+name+" looks into", text(scaled, "spec", "triggers", "0", "metadata", "namespace"), "its settings", text(settings, "data", "ONEEFFECT_SERVICEBUS_NAME"))
		authentication := named(objects, "TriggerAuthentication", text(scaled, "spec", "triggers", "0", "authenticationRef", "name"))
		w.same(azure, "the identity that "+name+" is scaled by", text(authentication, "spec", "podIdentity", "identityId"), "its settings", text(settings, "data", "ONEEFFECT_SCALER_CLIENT_ID"))
	}
}

// identities: pods sign in as the identities that the cluster's file lets them.
func (w *world) identities() error {
	f, objects := w.bicep[aksFile], w.overlays[azure]
	subjects := map[string]string{}
	for _, d := range f.Resources("Microsoft.ManagedIdentity/userAssignedIdentities/federatedIdentityCredentials") {
		subjects[f.Text(d.Body, "parent")] = f.Text(d.Body, "properties", "subject")
		w.same(aksFile, "audiences of "+d.Symbol, f.Text(d.Body, "properties", "audiences", "0"), "the platform", "api://AzureADTokenExchange")
	}
	for _, name := range Processes {
		d := named(objects, "Deployment", name)
		account := named(objects, "ServiceAccount", text(d, "spec", "template", "spec", "serviceAccountName"))
		if account == nil {
			w.problem(azure, "%s has no service account", name)
			continue
		}
		subject := fmt.Sprintf("system:serviceaccount:%s:%s", text(account, "metadata", "namespace"), text(account, "metadata", "name"))
		w.same(aksFile, "the subject of "+name, subjects[name], azure, subject)
		w.same(azure, "the label of "+name+"'s pods", text(d, "spec", "template", "metadata", "labels", "azure.workload.identity/use"), "the platform", "true")
		settings := named(objects, "ConfigMap", "settings")
		w.same(azure, "the client of "+name+"'s service account", text(account, "metadata", "annotations", "azure.workload.identity/client-id"),
			"its settings", text(settings, "data", "ONEEFFECT_"+strings.ToUpper(name)+"_CLIENT_ID"))
	}
	w.same(aksFile, "the subject of the scaler", subjects["scaler"], "the platform", "system:serviceaccount:kube-system:keda-operator")
	return nil
}

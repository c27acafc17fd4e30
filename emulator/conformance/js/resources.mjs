// Databases, containers, offers, the account, its key.
import { CosmosClient } from "@azure/cosmos";
import { all, assert, check, refused } from "./account.mjs";

check("a database is made, read, listed, queried and removed", async (account) => {
  const id = account.name();
  const { database, resource, statusCode } = await account.client.databases.create({ id });
  assert.equal(statusCode, 201);
  assert.deepEqual([resource.id, typeof resource._rid, typeof resource._etag], [id, "string", "string"]);
  await refused(account.client.databases.create({ id }), 409);
  assert.equal((await account.client.databases.createIfNotExists({ id })).resource._rid, resource._rid);
  assert.equal((await database.read()).resource._rid, resource._rid);
  assert.ok((await all(account.client.databases.readAll())).some((d) => d.id === id));
  const found = await all(account.client.databases.query({ query: "SELECT * FROM d WHERE d.id = @id", parameters: [{ name: "@id", value: id }] }));
  assert.deepEqual(found.map((d) => d.id), [id]);
  assert.equal((await database.delete()).statusCode, 204);
  await refused(database.read(), 404);
});

check("a container is made, read, replaced, listed and removed", async (account) => {
  const database = await account.database();
  const partitionKey = { paths: ["/tenant", "/user"], kind: "MultiHash", version: 2 };
  const { container, resource } = await database.containers.create({ id: "c", partitionKey, uniqueKeyPolicy: { uniqueKeys: [{ paths: ["/mail"] }] } });
  assert.deepEqual(resource.partitionKey, partitionKey);
  assert.equal(resource.indexingPolicy.indexingMode, "consistent");
  const replaced = await container.replace({ ...resource, defaultTtl: 60 });
  assert.equal(replaced.resource.defaultTtl, 60);
  assert.notEqual(replaced.resource._etag, resource._etag);
  assert.deepEqual((await all(database.containers.readAll())).map((c) => c.id), ["c"]);
  assert.deepEqual((await all(database.containers.query("SELECT VALUE c.id FROM c"))), ["c"]);
  await refused(database.containers.create({ id: "c", partitionKey }), 409);
  await refused(container.replace({ ...resource, partitionKey: { paths: ["/other"], kind: "Hash" } }), 400);
  await container.delete();
  await refused(container.read(), 404);
  await refused(database.container("none").items.create({ id: "1" }, {}), 404);
});

check("throughput is that of an offer", async (account) => {
  const database = await account.database();
  const { container } = await database.containers.create({ id: "c", partitionKey: { paths: ["/pk"] } }, { offerThroughput: 500 });
  const { offer, resource } = await container.readOffer();
  assert.equal(resource.content.offerThroughput, 500);
  resource.content.offerThroughput = 600;
  await offer.replace(resource);
  assert.equal((await container.readOffer()).resource.content.offerThroughput, 600);
  assert.ok((await all(account.client.offers.readAll())).some((o) => o.id === resource.id));
  const { container: scaled } = await database.containers.create({ id: "s", partitionKey: { paths: ["/pk"] }, maxThroughput: 4000 });
  assert.equal((await scaled.readOffer()).resource.content.offerAutopilotSettings.maxThroughput, 4000);
});

check("the account says what it is", async (account) => {
  const { resource } = await account.client.getDatabaseAccount();
  assert.equal(resource.consistencyPolicy, "Session");
  assert.equal(resource.writableLocations.length, 1);
  assert.match(await account.client.getReadEndpoint(), /^https?:/);
});

check("another key opens nothing", async (account) => {
  const other = new CosmosClient({
    endpoint: process.env.COSMOS_ENDPOINT,
    key: Buffer.from("another key").toString("base64"),
    connectionPolicy: { enableBackgroundEndpointRefreshing: false },
  });
  await refused(other.databases.create({ id: account.name() }), 401);
  other.dispose();
});

check("what is not done is refused by name", async (account) => {
  const container = await account.container();
  await refused(container.scripts.storedProcedures.create({ id: "s", body: "function () {}" }), 400, /does not implement stored procedures/);
  await refused(container.scripts.triggers.create({ id: "t", body: "", triggerType: "Pre", triggerOperation: "All" }), 400, /does not implement triggers/);
  await refused(container.scripts.userDefinedFunctions.create({ id: "u", body: "" }), 400, /does not implement user-defined functions/);
  await refused(container.database.users.create({ id: "u" }), 400, /does not implement users/);
  await refused(all(container.conflicts.readAll()), 400, /does not implement the conflict feed/);
});

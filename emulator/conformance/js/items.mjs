// Items: one by one, in batches, in bulk.
import { assert, check, refused, sleep } from "./account.mjs";

const ifMatch = (etag) => ({ accessCondition: { type: "IfMatch", condition: etag } });

check("an item is made, read, replaced and removed", async (account) => {
  const container = await account.container();
  const body = { id: "a b/é", pk: "p", n: 1.5, list: [1, null, { x: "y" }], zero: 0 };
  const id = "a";
  const made = await container.items.create({ ...body, id });
  assert.equal(made.statusCode, 201);
  assert.ok(Number(made.requestCharge) > 0);
  assert.ok(made.activityId);
  const read = await container.item(id, "p").read();
  const { _rid, _self, _etag, _attachments, _ts, ...own } = read.resource;
  assert.deepEqual(own, { ...body, id });
  assert.ok(_rid && _self && _attachments);
  assert.equal(_etag, read.etag);
  assert.ok(Math.abs(_ts - Date.now() / 1000) < 60);
  const replaced = await container.item(id, "p").replace({ id, pk: "p", n: 2 });
  assert.deepEqual([replaced.statusCode, replaced.resource.n, replaced.resource.list], [200, 2, undefined]);
  assert.equal((await container.item(id, "p").delete()).statusCode, 204);
  assert.equal((await container.item(id, "p").read()).statusCode, 404);
  await refused(container.item(id, "p").delete(), 404);
  await refused(container.item(id, "p").replace({ id, pk: "p" }), 404);
});

check("an id is unique within its logical partition", async (account) => {
  const container = await account.container();
  await container.items.create({ id: "1", pk: "a" });
  await container.items.create({ id: "1", pk: "b" });
  await container.items.create({ id: "1" });
  await container.items.create({ id: "1", pk: null });
  await refused(container.items.create({ id: "1", pk: "a" }), 409);
  assert.equal((await container.item("1", null).read()).resource.pk, null);
  assert.equal((await container.item("1", undefined).read()).resource.id, "1");
});

check("upsert makes or replaces", async (account) => {
  const container = await account.container();
  assert.equal((await container.items.upsert({ id: "1", pk: "p", n: 1 })).statusCode, 201);
  const second = await container.items.upsert({ id: "1", pk: "p", n: 2 });
  assert.deepEqual([second.statusCode, second.resource.n], [200, 2]);
});

check("of writers under one ETag the second is refused", async (account) => {
  const container = await account.container();
  const { etag } = await container.items.create({ id: "1", pk: "p", n: 0 });
  const item = container.item("1", "p");
  const first = await item.replace({ id: "1", pk: "p", n: 1 }, ifMatch(etag));
  await refused(item.replace({ id: "1", pk: "p", n: 2 }, ifMatch(etag)), 412);
  await refused(item.delete(ifMatch(etag)), 412);
  await refused(item.patch([{ op: "incr", path: "/n", value: 1 }], ifMatch(etag)), 412);
  await refused(container.items.upsert({ id: "1", pk: "p", n: 2 }, ifMatch(etag)), 412);
  assert.equal((await item.read()).resource.n, 1);
  await item.delete(ifMatch(first.etag));
  const racers = await Promise.allSettled([...Array(20)].map((_, n) => container.items.create({ id: "r", pk: "p", n })));
  assert.equal(racers.filter((r) => r.status === "fulfilled").length, 1);
});

check("a read of what is known already is short", async (account) => {
  const container = await account.container();
  const { etag } = await container.items.create({ id: "1", pk: "p" });
  const response = await container.item("1", "p").read({ accessCondition: { type: "IfNoneMatch", condition: etag } });
  assert.equal(response.statusCode, 304);
});

check("a patch changes what it names, under a condition", async (account) => {
  const container = await account.container();
  await container.items.create({ id: "1", pk: "p", n: 1, list: ["a"], o: { x: 1 } });
  const item = container.item("1", "p");
  const { resource } = await item.patch([
    { op: "incr", path: "/n", value: 2 },
    { op: "add", path: "/list/-", value: "b" },
    { op: "set", path: "/o/y", value: 2 },
    { op: "replace", path: "/o/x", value: null },
    { op: "add", path: "/new", value: true },
  ]);
  assert.deepEqual([resource.n, resource.list, resource.o, resource.new], [3, ["a", "b"], { x: null, y: 2 }, true]);
  const removed = await item.patch({ condition: "from c where c.n = 3", operations: [{ op: "remove", path: "/o" }] });
  assert.equal(removed.resource.o, undefined);
  await refused(item.patch({ condition: "from c where c.n = 4", operations: [{ op: "remove", path: "/n" }] }), 412);
  await refused(item.patch([{ op: "replace", path: "/none", value: 1 }]), 400);
  await refused(item.patch([{ op: "set", path: "/pk", value: "q" }]), 400);
  assert.equal((await item.read()).resource.n, 3);
});

check("a batch is all or nothing", async (account) => {
  const container = await account.container();
  await container.items.create({ id: "1", pk: "p", n: 1 });
  const good = await container.items.batch(
    [
      { operationType: "Create", resourceBody: { id: "2", pk: "p" } },
      { operationType: "Upsert", resourceBody: { id: "3", pk: "p" } },
      { operationType: "Read", id: "1" },
      { operationType: "Replace", id: "1", resourceBody: { id: "1", pk: "p", n: 2 } },
      { operationType: "Patch", id: "1", resourceBody: { operations: [{ op: "incr", path: "/n", value: 1 }] } },
      { operationType: "Delete", id: "2" },
    ],
    "p",
  );
  assert.equal(good.code, 200);
  assert.deepEqual(good.result.map((r) => r.statusCode), [201, 201, 200, 200, 200, 204]);
  assert.equal(good.result[4].resourceBody.n, 3);
  const bad = await container.items.batch(
    [
      { operationType: "Create", resourceBody: { id: "4", pk: "p" } },
      { operationType: "Create", resourceBody: { id: "1", pk: "p" } },
      { operationType: "Delete", id: "3" },
    ],
    "p",
  );
  assert.equal(bad.code, 207);
  assert.deepEqual(bad.result.map((r) => r.statusCode), [424, 409, 424]);
  assert.equal((await container.item("4", "p").read()).statusCode, 404);
  assert.equal((await container.item("3", "p").read()).statusCode, 200);
});

check("a bulk is many operations, each by itself", async (account) => {
  const container = await account.container();
  const create = (id, pk) => ({ operationType: "Create", partitionKey: pk, resourceBody: { id, pk } });
  const many = [...Array(150)].map((_, n) => create(`${n}`, `p${n % 7}`));
  const made = await container.items.executeBulkOperations(many);
  assert.deepEqual(new Set(made.map((r) => r.response?.statusCode)), new Set([201]));
  const mixed = await container.items.executeBulkOperations([
    create("0", "p0"),
    create("new", "p0"),
    { operationType: "Read", partitionKey: "p1", id: "1" },
    { operationType: "Patch", partitionKey: "p1", id: "1", resourceBody: { operations: [{ op: "add", path: "/n", value: 1 }] } },
    { operationType: "Delete", partitionKey: "p2", id: "2" },
    { operationType: "Delete", partitionKey: "p2", id: "none" },
  ]);
  assert.deepEqual(mixed.map((r) => r.response?.statusCode ?? r.error.code), [409, 201, 200, 200, 204, 404]);
  assert.equal((await container.item("new", "p0").read()).statusCode, 200);
});

check("items expire", async (account) => {
  const container = await account.container({ defaultTtl: -1 });
  await container.items.create({ id: "1", pk: "p", ttl: 1 });
  await container.items.create({ id: "2", pk: "p" });
  await sleep(2_100);
  assert.equal((await container.item("1", "p").read()).statusCode, 404);
  assert.equal((await container.item("2", "p").read()).statusCode, 200);
  assert.equal((await container.items.create({ id: "1", pk: "p" })).statusCode, 201);
  await refused(container.items.create({ id: "3", pk: "p", ttl: 0 }), 400);
});

check("an item has limits and one partition key", async (account) => {
  const container = await account.container({ uniqueKeyPolicy: { uniqueKeys: [{ paths: ["/mail"] }] } });
  await refused(container.items.create({ id: "1", pk: "p", text: "x".repeat(2 << 20) }), 413);
  await container.items.create({ id: "1", pk: "p", mail: "m" });
  await refused(container.items.create({ id: "2", pk: "p", mail: "m" }), 409);
  await container.items.create({ id: "2", pk: "q", mail: "m" });
  await refused(container.item("1", "p").replace({ id: "1", pk: "q", mail: "m" }), 400);
});

check("session tokens rise", async (account) => {
  const container = await account.container();
  const lsn = (response) => Number(response.headers["x-ms-session-token"].split("#")[1]);
  const first = await container.items.create({ id: "1", pk: "p" });
  const second = await container.items.create({ id: "2", pk: "p" });
  assert.ok(lsn(second) > lsn(first));
  const token = second.headers["x-ms-session-token"];
  assert.equal((await container.item("2", "p").read({ sessionToken: token })).statusCode, 200);
});

// Feeds: of all items, and of their changes.
import { ChangeFeedStartFrom, PartitionKeyBuilder } from "@azure/cosmos";
import { all, assert, check, pages, refused } from "./account.mjs";

check("all items are read in pages", async (account) => {
  const container = await account.filled();
  const list = await pages(container.items.readAll({ maxItemCount: 5 }));
  assert.ok(list.every((page) => page.length <= 5));
  assert.deepEqual(list.flat().map((c) => c.n), [...Array(12).keys()]);
  assert.equal((await all(container.items.readAll({ partitionKey: "p1" }))).length, 4);
  const { resources } = await container.readPartitionKeyRanges().fetchAll();
  assert.deepEqual(resources.map((r) => [r.minInclusive, r.maxExclusive]), [["", "FF"]]);
});

/** changes reads a change feed until there is nothing new. */
async function changes(iterator) {
  const list = [];
  for (;;) {
    const page = await iterator.readNext();
    if (page.statusCode === 304) return { list, token: page.continuationToken };
    list.push(...page.result.map((c) => c.id));
  }
}

check("the change feed has every item once, at its last change", async (account) => {
  const container = await account.filled();
  await container.item("0", "p0").patch([{ op: "set", path: "/n", value: 100 }]);
  await container.item("1", "p1").delete();
  const feed = (from, options = {}) => container.items.getChangeFeedIterator({ changeFeedStartFrom: from, maxItemCount: 4, ...options });
  const { list, token } = await changes(feed(ChangeFeedStartFrom.Beginning()));
  assert.deepEqual(list, ["2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "0"]);
  await container.items.create({ id: "new", pk: "p1" });
  assert.deepEqual((await changes(feed(ChangeFeedStartFrom.Continuation(token)))).list, ["new"]);
  assert.deepEqual((await changes(feed(ChangeFeedStartFrom.Beginning("p1")))).list, ["4", "7", "10", "new"]);
  assert.deepEqual((await changes(feed(ChangeFeedStartFrom.Time(new Date(Date.now() - 3_600_000))))).list.length, 12);
  const now = feed(ChangeFeedStartFrom.Now());
  await now.readNext();
  await container.items.create({ id: "later", pk: "p2" });
  assert.deepEqual((await changes(now)).list, ["later"]);
});

check("the change feed is divided by effective partition keys", async (account) => {
  const container = await account.filled();
  const [whole] = await container.getFeedRanges();
  assert.deepEqual((await changes(container.items.getChangeFeedIterator({ changeFeedStartFrom: ChangeFeedStartFrom.Beginning(whole) }))).list.length, 12);
  const lists = [];
  for (const [minInclusive, maxExclusive] of [["", "1F"], ["1F", "FF"]]) {
    const half = new whole.constructor(minInclusive, maxExclusive); // the client exports no way to make one
    lists.push((await changes(container.items.getChangeFeedIterator({ changeFeedStartFrom: ChangeFeedStartFrom.Beginning(half) }))).list);
  }
  assert.equal(lists.flat().length, 12);
  assert.deepEqual(new Set(lists.flat()).size, 12);
});

check("the change feed with all versions is refused by name", async (account) => {
  const container = await account.container();
  const iterator = container.items.getChangeFeedIterator({ changeFeedMode: "Full-Fidelity Feed", changeFeedStartFrom: ChangeFeedStartFrom.Now() });
  await refused(iterator.readNext(), 400, /does not implement the change feed mode/);
});

check("a key of several components finds its items", async (account) => {
  const container = await account.container({ partitionKey: { paths: ["/a", "/b"], kind: "MultiHash", version: 2 } });
  await container.items.create({ id: "1", a: "x", b: 1 });
  await container.items.create({ id: "1", a: "x", b: 2 });
  const key = new PartitionKeyBuilder().addValue("x").addValue(2).build();
  assert.equal((await container.item("1", key).read()).resource.b, 2);
});

// Queries: within a logical partition the emulator serves them whole, across
// several the client puts them together by the emulator's plan.
import { all, assert, check, pages, refused } from "./account.mjs";

const numbers = (to, from = 0) => [...Array(to - from)].map((_, i) => i + from);

check("a query within a partition is served whole", async (account) => {
  const container = await account.filled();
  const query = (text, parameters = []) => all(container.items.query({ query: text, parameters }, { partitionKey: "p1" }));
  assert.deepEqual(await query("SELECT VALUE c.n FROM c ORDER BY c.n DESC"), [10, 7, 4, 1]);
  assert.deepEqual(await query("SELECT VALUE SUM(c.n) FROM c"), [22]);
  assert.deepEqual(await query("SELECT TOP 2 c.id, c.n FROM c WHERE c.n > @n", [{ name: "@n", value: 1 }]), [{ id: "4", n: 4 }, { id: "7", n: 7 }]);
  assert.deepEqual(await query("SELECT c.city, COUNT(1) AS n FROM c GROUP BY c.city"), [{ city: "Ulm", n: 2 }, { city: "Rom", n: 1 }, { n: 1 }]);
  assert.deepEqual(await query("SELECT VALUE t FROM c JOIN t IN c.tags WHERE c.n = 4"), ["t0", "all"]);
  assert.deepEqual(await query("SELECT VALUE c.id FROM c WHERE EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t = 't3')"), ["7"]);
  assert.deepEqual(await all(container.items.query("SELECT VALUE COUNT(1) FROM c WHERE c.pk = 'p1'")), [4]);
});

check("a query within a partition comes in pages", async (account) => {
  const container = await account.filled();
  const iterator = container.items.query("SELECT VALUE c.n FROM c ORDER BY c.n", { partitionKey: "p0", maxItemCount: 3 });
  assert.deepEqual(await pages(iterator), [[0, 3, 6], [9]]);
  const first = await container.items.query("SELECT VALUE c.n FROM c", { partitionKey: "p0", maxItemCount: 3 }).fetchNext();
  assert.ok(first.hasMoreResults && first.continuationToken);
  const rest = container.items.query("SELECT VALUE c.n FROM c", { partitionKey: "p0", continuationToken: first.continuationToken });
  assert.deepEqual(await all(rest), [9]);
});

check("filters and projections across partitions", async (account) => {
  const container = await account.filled();
  assert.deepEqual(await all(container.items.query("SELECT VALUE c.n FROM c WHERE c.n >= 6")), numbers(12, 6));
  assert.equal((await all(container.items.query("SELECT * FROM c", { maxItemCount: 5 }))).length, 12);
  assert.equal((await all(container.items.query("SELECT * FROM c WHERE c.n < 4", { forceQueryPlan: true }))).length, 4);
  const token = (await container.items.query("SELECT * FROM c", { maxItemCount: 5 }).fetchNext()).continuationToken;
  assert.equal((await all(container.items.query("SELECT * FROM c", { continuationToken: token }))).length, 7);
});

check("an order across partitions", async (account) => {
  const container = await account.filled({
    indexingPolicy: {
      includedPaths: [{ path: "/*" }],
      compositeIndexes: [[{ path: "/city", order: "ascending" }, { path: "/n", order: "descending" }]],
    },
  });
  const query = (text, options) => all(container.items.query(text, options));
  assert.deepEqual(await query("SELECT VALUE c.n FROM c ORDER BY c.n DESC"), numbers(12).reverse());
  assert.deepEqual(await query("SELECT VALUE c.n FROM c WHERE c.n > 3 OR c.n = 0 ORDER BY c.n", { maxItemCount: 2 }), [0, ...numbers(12, 4)]);
  assert.deepEqual((await query("SELECT * FROM c ORDER BY c.n")).map((c) => c.id), numbers(12).map(String));
  assert.deepEqual(await query("SELECT c.id, c.n AS m FROM c WHERE c.n < 2 ORDER BY c.n"), [{ id: "0", m: 0 }, { id: "1", m: 1 }]);
  assert.deepEqual(await query("SELECT VALUE c.n FROM c WHERE IS_DEFINED(c.city) ORDER BY c.city, c.n DESC"), [8, 6, 4, 2, 11, 9, 7, 3, 1]);
  assert.deepEqual(await query("SELECT VALUE c.city FROM c ORDER BY c.n OFFSET 0 LIMIT 3"), ["Ulm", "Rom", "Ulm"]);
  await refused(query("SELECT * FROM c ORDER BY c.n, c.city"), 400, /composite index/);
});

check("an order across partitions comes in pages that go on", async (account) => {
  const container = await account.filled();
  const options = { maxItemCount: 5, enableQueryControl: true };
  const query = "SELECT VALUE c.n FROM c ORDER BY c.n";
  const { resources, continuationToken } = await container.items.query(query, options).fetchNext();
  assert.deepEqual(resources, numbers(5));
  const rest = container.items.query(query, { ...options, continuationToken });
  assert.deepEqual((await pages(rest)).flat(), numbers(12, 5));
});

check("TOP, OFFSET and LIMIT across partitions", async (account) => {
  const container = await account.filled();
  const query = (text, parameters = []) => all(container.items.query({ query: text, parameters }));
  assert.deepEqual(await query("SELECT TOP 3 VALUE c.n FROM c"), [0, 1, 2]);
  assert.deepEqual(await query("SELECT TOP @n VALUE c.n FROM c ORDER BY c.n DESC", [{ name: "@n", value: 2 }]), [11, 10]);
  assert.deepEqual(await query("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 10 LIMIT 5"), [10, 11]);
  assert.deepEqual(await query("SELECT VALUE c.n FROM c OFFSET 1 LIMIT 2"), [1, 2]);
});

check("DISTINCT across partitions", async (account) => {
  const container = await account.filled();
  const query = (text) => all(container.items.query(text));
  assert.deepEqual(await query("SELECT DISTINCT VALUE c.city FROM c"), ["Ulm", "Rom"]);
  assert.deepEqual(await query("SELECT DISTINCT c.city FROM c WHERE IS_DEFINED(c.city)"), [{ city: "Ulm" }, { city: "Rom" }]);
  assert.deepEqual(await query("SELECT DISTINCT VALUE c.city FROM c ORDER BY c.city"), ["Rom", "Ulm"]);
  assert.deepEqual(await query("SELECT DISTINCT VALUE t FROM t IN c.tags"), ["t0", "all", "t1", "t2", "t3"]);
  await refused(query("SELECT DISTINCT c.city FROM c ORDER BY c.n"), 400, /DISTINCT has to be ordered by exactly what it selects/);
});

check("aggregates across partitions", async (account) => {
  const container = await account.filled();
  const query = (text) => all(container.items.query(text));
  assert.deepEqual(await query("SELECT VALUE COUNT(1) FROM c"), [12]);
  assert.deepEqual(await query("SELECT VALUE COUNT(c.city) FROM c WHERE c.n < 6"), [4]);
  assert.deepEqual(await query("SELECT VALUE SUM(c.n) FROM c"), [66]);
  assert.deepEqual(await query("SELECT VALUE AVG(c.n) FROM c"), [5.5]);
  assert.deepEqual(await query("SELECT VALUE MIN(c.n) FROM c WHERE c.n > 2"), [3]);
  assert.deepEqual(await query("SELECT VALUE MAX(c.city) FROM c"), ["Ulm"]);
  assert.deepEqual(await query("SELECT VALUE AVG(c.none) FROM c"), []);
  assert.deepEqual(await query("SELECT COUNT(1) AS n, MAX(c.n) AS most, AVG(c.n) AS mean FROM c"), [{ n: 12, most: 11, mean: 5.5 }]);
  assert.deepEqual(await query("SELECT VALUE COUNTIF(c.n > 3) FROM c"), [8]);
  await refused(query("SELECT VALUE COUNT(1) + 1 FROM c"), 400, /Compositions of aggregates/);
});

check("GROUP BY across partitions", async (account) => {
  const container = await account.filled();
  const query = (text) => all(container.items.query(text));
  const by = (name) => (a, b) => String(a[name]).localeCompare(String(b[name]));
  const groups = await query("SELECT c.city, COUNT(1) AS n, SUM(c.n) AS s, AVG(c.n) AS a FROM c WHERE IS_DEFINED(c.city) GROUP BY c.city");
  assert.deepEqual(groups.sort(by("city")), [{ city: "Rom", n: 4, s: 20, a: 5 }, { city: "Ulm", n: 5, s: 31, a: 6.2 }]);
  assert.deepEqual((await query("SELECT VALUE c.pk FROM c GROUP BY c.pk")).sort(), ["p0", "p1", "p2"]);
  assert.deepEqual(await query("SELECT VALUE COUNT(1) FROM c GROUP BY c.pk"), [4, 4, 4]);
  const tags = await query("SELECT t AS tag, MIN(c.n) AS least FROM c JOIN t IN c.tags GROUP BY t");
  assert.deepEqual(tags.sort(by("tag")), [{ tag: "all", least: 0 }, { tag: "t0", least: 0 }, { tag: "t1", least: 1 }, { tag: "t2", least: 2 }, { tag: "t3", least: 3 }]);
});

check("a hierarchical key confines a query", async (account) => {
  const container = await account.container({ partitionKey: { paths: ["/tenant", "/user"], kind: "MultiHash", version: 2 } });
  for (const [n, tenant, user] of [[1, "a", "x"], [2, "a", "y"], [3, "b", "x"]]) await container.items.create({ id: `${n}`, tenant, user, n });
  const query = (text, options) => all(container.items.query(text, options));
  assert.deepEqual(await query("SELECT VALUE c.n FROM c ORDER BY c.n", { partitionKey: ["a", "y"] }), [2]);
  assert.deepEqual(await query("SELECT VALUE c.n FROM c WHERE c.tenant = 'a' ORDER BY c.n DESC"), [2, 1]);
  assert.deepEqual(await query("SELECT VALUE SUM(c.n) FROM c WHERE c.tenant = 'a' AND c.user = 'x'"), [1]);
});

check("a query that is not understood is refused with its place", async (account) => {
  const container = await account.filled();
  const query = (text) => all(container.items.query(text));
  const { message } = await refused(query("SELECT * FROM c WHERE c.n == 1"), 400, /incorrect syntax near '='/);
  assert.match(message, /"start":27,"end":28/);
  await refused(query("SELECT * FROM c WHERE frobnicate(c.n)"), 400, /frobnicate/);
  await refused(query("SELECT * FROM c WHERE udf.f(c.n)"), 400, /user-defined functions/);
  await refused(query("SELECT * FROM c ORDER BY RANK FullTextScore(c.city, 'x')"), 400, /ORDER BY RANK/);
  await refused(query("SELECT TOP 3 * FROM c ORDER BY VectorDistance(c.v, [1])"), 400, /VectorDistance/);
});

check("a query tells what it cost", async (account) => {
  const container = await account.filled();
  const iterator = container.items.query("SELECT * FROM c", { partitionKey: "p0", populateQueryMetrics: true, populateIndexMetrics: true });
  const response = await iterator.fetchNext();
  assert.ok(response.requestCharge > 0);
  assert.equal(response.queryMetrics["0"].outputDocumentCount, 4);
  assert.ok(response.indexMetrics);
});

// Topics, subscriptions and rules.
import { assert, bodies, check, nothing, receive, receiveOne } from "./world.mjs";

check("every subscription gets its own copy", async (world) => {
  const { sender, of } = await world.topic({ a: {}, b: {} });
  await sender.sendMessages({ body: "x" });
  const [a, b] = [of("a"), of("b")];
  await a.completeMessage(await receiveOne(a));
  assert.equal((await receiveOne(b)).body, "x");
});

check("SQL filters choose", async (world) => {
  const { sender, of } = await world.topic({
    large: { filter: { sqlExpression: "size > 10 AND color IN ('red', 'blue')" } },
    system: { filter: { sqlExpression: "sys.Label LIKE 'order.%' AND sys.CorrelationId IS NOT NULL" } },
    absent: { filter: { sqlExpression: "NOT EXISTS(size)" } },
    given: { filter: { sqlExpression: "color = @c", sqlParameters: { "@c": "green" } } },
  });
  await sender.sendMessages([
    { body: 1, applicationProperties: { size: 11, color: "red" } },
    { body: 2, applicationProperties: { size: 9, color: "red" } },
    { body: 3, applicationProperties: { color: "green" } },
    { body: 4, subject: "order.new", correlationId: "c", applicationProperties: { size: 1 } },
    { body: 5, subject: "order.new", applicationProperties: { size: 12, color: "blue" } },
  ]);
  const want = { large: [1, 5], system: [4], absent: [3], given: [3] };
  for (const [name, wanted] of Object.entries(want)) {
    const receiver = of(name);
    assert.deepEqual(bodies(await receive(receiver, wanted.length)), wanted, name);
    await nothing(receiver);
  }
});

check("correlation filters compare everything that they name", async (world) => {
  const { sender, of } = await world.topic({
    both: { filter: { subject: "s", applicationProperties: { kind: "k" } } },
    one: { filter: { correlationId: "c" } },
  });
  await sender.sendMessages([
    { body: 1, subject: "s", applicationProperties: { kind: "k" } },
    { body: 2, subject: "s", applicationProperties: { kind: "K" } },
    { body: 3, subject: "s", correlationId: "c" },
  ]);
  const [both, one] = [of("both"), of("one")];
  assert.deepEqual(bodies(await receive(both, 1)), [1]);
  await nothing(both);
  assert.deepEqual(bodies(await receive(one, 1)), [3]);
});

check("an action changes the copy of its subscription", async (world) => {
  const { sender, of } = await world.topic({
    changed: { filter: { sqlExpression: "1 = 1" }, action: { sqlExpression: "SET price = price * 2; SET sys.Label = 'changed'; REMOVE secret" } },
    plain: {},
  });
  await sender.sendMessages({ body: "x", subject: "s", applicationProperties: { price: 21, secret: "y" } });
  const changed = await receiveOne(of("changed"));
  assert.deepEqual([changed.subject, changed.applicationProperties], ["changed", { price: 42 }]);
  const plain = await receiveOne(of("plain"));
  assert.deepEqual([plain.subject, plain.applicationProperties], ["s", { price: 21, secret: "y" }]);
});

check("rules can be changed over AMQP", async (world) => {
  const { name, sender, of } = await world.topic({ s: {} });
  const rules = world.client.createRuleManager(name, "s");
  const list = async () => {
    const all = [];
    for await (const rule of rules.listRules()) all.push(rule);
    return all.sort((a, b) => a.name.localeCompare(b.name));
  };
  assert.deepEqual((await list()).map((r) => r.name), ["$Default"]);
  await rules.createRule("correlated", { correlationId: "c", applicationProperties: { n: 1 } });
  await rules.createRule("sql", { sqlExpression: "n = 2" }, { sqlExpression: "SET seen = true" });
  await rules.deleteRule("$Default");
  const [correlated, sql] = await list();
  assert.equal(correlated.filter.correlationId, "c");
  assert.deepEqual(correlated.filter.applicationProperties, { n: 1 });
  assert.equal(sql.filter.sqlExpression, "n = 2");
  assert.equal(sql.action.sqlExpression, "SET seen = true");
  await sender.sendMessages([
    { body: 1, correlationId: "c", applicationProperties: { n: 1 } },
    { body: 2, applicationProperties: { n: 2 } },
    { body: 3, applicationProperties: { n: 3 } },
  ]);
  const receiver = of("s");
  const got = await receive(receiver, 2);
  assert.deepEqual(got.map((m) => [m.body, m.applicationProperties.seen]), [[1, undefined], [2, true]]);
  await nothing(receiver);
});

check("a scheduled message waits at the topic", async (world) => {
  const { sender, of } = await world.topic({ s: {} });
  const due = new Date(Date.now() + 1_000);
  const [kept, cancelled] = await sender.scheduleMessages([{ body: "kept" }, { body: "cancelled" }], due);
  await sender.cancelScheduledMessages(cancelled);
  assert.ok(kept.toNumber() > 0);
  const receiver = of("s");
  await nothing(receiver);
  assert.equal((await receiveOne(receiver)).body, "kept");
  await nothing(receiver);
});

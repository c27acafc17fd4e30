// The management API, and what follows from it.
import { ServiceBusClient } from "@azure/service-bus";
import { assert, bodies, check, later, receive, receiveOne, refused, seconds } from "./world.mjs";

check("a queue is made, read, changed, listed and removed", async (world) => {
  const name = world.name();
  const made = await world.admin.createQueue(name, { lockDuration: seconds(45), maxDeliveryCount: 7, userMetadata: "m" });
  assert.equal(made.lockDuration, seconds(45));
  const read = await world.admin.getQueue(name);
  assert.deepEqual([read.name, read.maxDeliveryCount, read.userMetadata, read.status], [name, 7, "m", "Active"]);
  await world.admin.updateQueue({ ...read, maxDeliveryCount: 8 });
  assert.equal((await world.admin.getQueue(name)).maxDeliveryCount, 8);
  const names = [];
  for await (const q of world.admin.listQueues()) names.push(q.name);
  assert.ok(names.includes(name), `${name} is in ${names}`);
  assert.ok(await world.admin.queueExists(name));
  await refusedAs(world.admin.createQueue(name), "MessageEntityAlreadyExistsError");
  await world.admin.deleteQueue(name);
  assert.ok(!(await world.admin.queueExists(name)));
  await refusedAs(world.admin.getQueue(name), "MessageEntityNotFoundError");
});

check("counts tell states apart", async (world) => {
  const { name, sender, receiver } = await world.queue();
  await sender.sendMessages([{ body: 1 }, { body: 2 }, { body: 3 }]);
  await sender.scheduleMessages({ body: 4 }, later(60_000));
  await receiver.deadLetterMessage(await receiveOne(receiver));
  const counts = await world.admin.getQueueRuntimeProperties(name);
  assert.deepEqual(
    [counts.totalMessageCount, counts.activeMessageCount, counts.scheduledMessageCount, counts.deadLetterMessageCount],
    [4, 2, 1, 1],
  );
  assert.ok(counts.sizeInBytes > 0);
});

check("rules are made, read, changed, listed and removed", async (world) => {
  const { name } = await world.topic({ s: {} });
  const { admin } = world;
  await admin.createRule(name, "s", "sql", { sqlExpression: "a = @p", sqlParameters: { "@p": 5 } }, { sqlExpression: "SET b = 1" });
  await admin.createRule(name, "s", "correlation", { subject: "x", applicationProperties: { n: 1, yes: true, text: "t" } });
  const sql = await admin.getRule(name, "s", "sql");
  assert.equal(sql.filter.sqlExpression, "a = @p");
  assert.deepEqual(sql.filter.sqlParameters, { "@p": 5 });
  assert.equal(sql.action.sqlExpression, "SET b = 1");
  const correlation = await admin.getRule(name, "s", "correlation");
  assert.deepEqual(correlation.filter.applicationProperties, { n: 1, yes: true, text: "t" });
  await admin.updateRule(name, "s", { ...sql, filter: { sqlExpression: "a = 6" } });
  await admin.deleteRule(name, "s", "$Default");
  const rules = {};
  for await (const rule of admin.listRules(name, "s")) rules[rule.name] = rule.filter.sqlExpression ?? rule.filter.subject;
  assert.deepEqual(rules, { sql: "a = 6", correlation: "x" });
});

check("messages are forwarded", async (world) => {
  const { name: target, receiver } = await world.queue();
  const { sender } = await world.queue({ forwardTo: target });
  await sender.sendMessages([{ body: 1 }, { body: 2 }]);
  assert.deepEqual(bodies(await receive(receiver, 2)), [1, 2]);
});

check("a queue that takes no more sends says that it is disabled", async (world) => {
  const { name, sender, receiver } = await world.queue();
  await sender.sendMessages({ body: "before" });
  await world.admin.updateQueue({ ...(await world.admin.getQueue(name)), status: "SendDisabled" });
  // A new sender: one whose link is being detached is between two links.
  await refused(world.client.createSender(name).sendMessages({ body: "x" }), "MessagingEntityDisabled");
  assert.equal((await receiveOne(receiver)).body, "before");
});

check("a wrong key is refused", async (world) => {
  const wrong = process.env.SERVICEBUS_CONNECTION_STRING.replace(/SharedAccessKey=[^;]+/, "SharedAccessKey=d3Jvbmc=");
  const client = new ServiceBusClient(wrong, { retryOptions: { maxRetries: 0 } });
  try {
    const { name } = await world.queue();
    await refused(client.createSender(name).sendMessages({ body: "x" }), "UnauthorizedAccess");
  } finally {
    await client.close();
  }
});

async function refusedAs(promise, code) {
  const err = await promise.then(
    () => assert.fail("it was not refused"),
    (err) => err,
  );
  assert.deepEqual([err.name, err.code], ["RestError", code]);
}

// Locks, delivery counts, deferral, dead letters.
import { ServiceBusClient } from "@azure/service-bus";
import { assert, bodies, check, later, nothing, receive, receiveOne, refused, seconds, sleep } from "./world.mjs";

// unrenewed is a receiver that does not renew locks by itself, as this client otherwise does.
const unrenewed = (world, name) => world.client.createReceiver(name, { maxAutoLockRenewalDurationInMs: 0 });

const deadLetters = (world, name) => world.client.createReceiver(name, { subQueueType: "deadLetter" });

check("abandoning counts a delivery and merges properties", async (world) => {
  const { sender, receiver } = await world.queue();
  await sender.sendMessages([{ body: "a", applicationProperties: { kept: 1, changed: 1 } }, { body: "b" }]);
  const first = await receiveOne(receiver);
  await receiver.abandonMessage(first, { changed: 2, added: "x" });
  const again = await receiveOne(receiver);
  assert.equal(again.body, "a", "it is back at its old place");
  assert.equal(again.deliveryCount, 1);
  assert.deepEqual(again.applicationProperties, { kept: 1, changed: 2, added: "x" });
  assert.notEqual(again.lockToken, first.lockToken);
});

check("a renewed lock lasts longer", async (world) => {
  const { name, sender } = await world.queue({ lockDuration: seconds(5) });
  const receiver = unrenewed(world, name);
  await sender.sendMessages({ body: "x" });
  const got = await receiveOne(receiver);
  const before = got.lockedUntilUtc;
  await sleep(2_000);
  const until = await receiver.renewMessageLock(got);
  assert.ok(until - before >= 1_500, `from ${before.toISOString()} to ${until.toISOString()}`);
  await sleep(before - Date.now() + 500);
  await nothing(receiver);
  await receiver.completeMessage(got);
});

check("an expired lock is a failed delivery, and settles nothing", async (world) => {
  const { name, sender } = await world.queue({ lockDuration: seconds(5) });
  const receiver = unrenewed(world, name);
  await sender.sendMessages({ body: "x" });
  const lost = await receiveOne(receiver);
  await sleep(lost.lockedUntilUtc - Date.now() + 200);
  const again = await receiveOne(receiver);
  assert.equal(again.deliveryCount, 1);
  await refused(receiver.completeMessage(lost), "MessageLockLost");
  await receiver.completeMessage(again);
});

check("a lock survives its link and its connection", async (world) => {
  const { name, sender, receiver } = await world.queue();
  await sender.sendMessages({ body: "x" });
  const got = await receiveOne(receiver);
  await receiver.close();
  const other = new ServiceBusClient(process.env.SERVICEBUS_CONNECTION_STRING);
  try {
    await nothing(other.createReceiver(name));
  } finally {
    await other.close();
  }
  assert.equal(got.deliveryCount, 0);
});

check("a deferred message is received by its number only", async (world) => {
  const { sender, receiver } = await world.queue();
  await sender.sendMessages([{ body: "a" }, { body: "b" }, { body: "c" }]);
  const [a, b, c] = await receive(receiver, 3);
  await receiver.deferMessage(a, { why: "later" });
  await receiver.deferMessage(b);
  await receiver.completeMessage(c);
  await nothing(receiver);
  const deferred = await receiver.receiveDeferredMessages([a.sequenceNumber, b.sequenceNumber]);
  assert.deepEqual(bodies(deferred), ["a", "b"]);
  assert.deepEqual(deferred.map((m) => m.state), ["deferred", "deferred"]);
  assert.equal(deferred[0].applicationProperties.why, "later");
  assert.equal(deferred[0].deliveryCount, 0, "deferring counts no delivery");
  await receiver.completeMessage(deferred[0]);
  await receiver.deadLetterMessage(deferred[1]);
  await refused(receiver.receiveDeferredMessages(a.sequenceNumber), "MessageNotFound");
});

check("a dead letter tells why and where from", async (world) => {
  const { name, sender, receiver } = await world.queue();
  await sender.sendMessages({ body: "x", messageId: "m", applicationProperties: { kept: true } });
  await receiver.deadLetterMessage(await receiveOne(receiver), {
    deadLetterReason: "poison",
    deadLetterErrorDescription: "could not be read",
    added: "y",
  });
  await nothing(receiver);
  const dead = deadLetters(world, name);
  const got = await receiveOne(dead);
  assert.equal(got.messageId, "m");
  assert.equal(got.deadLetterReason, "poison");
  assert.equal(got.deadLetterErrorDescription, "could not be read");
  assert.equal(got.applicationProperties.kept, true);
  assert.equal(got.applicationProperties.added, "y");
  await dead.abandonMessage(got);
  const again = await receiveOne(dead);
  assert.equal(again.deliveryCount, got.deliveryCount, "nothing is counted among the dead");
  await dead.completeMessage(again);
  await nothing(dead);
});

check("dead-lettering is answered at once", async (world) => {
  // An answer of "rejected" makes this client, too, take the settlement for failed.
  const { name, sender, receiver } = await world.queue();
  await sender.sendMessages({ body: "x" });
  const got = await receiveOne(receiver);
  const start = Date.now();
  await receiver.deadLetterMessage(got);
  assert.ok(Date.now() - start < 1_000, `it took ${Date.now() - start} ms`);
  assert.equal((await receiveOne(deadLetters(world, name))).body, "x");
});

check("too many failed deliveries are a dead letter", async (world) => {
  const { name, sender, receiver } = await world.queue({ maxDeliveryCount: 3 });
  await sender.sendMessages({ body: "x" });
  for (let count = 0; count < 3; count++) {
    const got = await receiveOne(receiver);
    assert.equal(got.deliveryCount, count);
    await receiver.abandonMessage(got);
  }
  await nothing(receiver);
  const got = await receiveOne(deadLetters(world, name));
  assert.equal(got.deadLetterReason, "MaxDeliveryCountExceeded");
  assert.equal(got.deadLetterErrorDescription, "Message could not be consumed after maximum delivery attempts.");
});

check("what outlives its time is a dead letter, if the queue says so", async (world) => {
  const keeping = await world.queue({ deadLetteringOnMessageExpiration: true });
  const dropping = await world.queue();
  for (const { sender } of [keeping, dropping]) {
    await sender.sendMessages({ body: "x", timeToLive: 500 });
  }
  await sleep(800);
  await nothing(keeping.receiver);
  await nothing(dropping.receiver);
  assert.equal((await receiveOne(deadLetters(world, keeping.name))).deadLetterReason, "TTLExpiredException");
  await nothing(deadLetters(world, dropping.name));
});

check("a locked message does not expire", async (world) => {
  const { sender, receiver } = await world.queue();
  await sender.sendMessages({ body: "x", timeToLive: 1_000 });
  const got = await receiveOne(receiver);
  assert.ok(got.expiresAtUtc < later(1_500));
  await sleep(1_500);
  await receiver.completeMessage(got);
});

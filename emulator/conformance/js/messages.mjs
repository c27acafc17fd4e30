// Sending, receiving, batches, scheduling, peeking, draining.
import { assert, bodies, check, later, nothing, receive, receiveOne, refused, seconds, sleep } from "./world.mjs";

check("a message arrives as it was sent", async (world) => {
  const { sender, receiver } = await world.queue();
  const sent = {
    body: { order: 1, text: "größer", nested: [true, null, 1.5] },
    messageId: "m-1",
    correlationId: "c-1",
    contentType: "application/json",
    subject: "s",
    to: "t",
    replyTo: "r",
    replyToSessionId: "rs",
    partitionKey: "p",
    timeToLive: 60_000,
    applicationProperties: { text: "x", whole: 7, part: 0.5, yes: true, none: null, far: 1767323045678 },
  };
  const before = Date.now();
  await sender.sendMessages(sent);
  const got = await receiveOne(receiver);
  for (const property of Object.keys(sent)) {
    assert.deepEqual(got[property], sent[property], property);
  }
  assert.equal(got.deliveryCount, 0);
  assert.equal(got.state, "active");
  assert.equal(got.sequenceNumber.toNumber(), 1);
  assert.match(got.lockToken, /^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$/);
  assert.ok(got.lockedUntilUtc > later(30_000), "locked for a minute");
  assert.ok(Math.abs(got.enqueuedTimeUtc - before) < 5_000, "enqueued now");
  assert.equal(got.expiresAtUtc - got.enqueuedTimeUtc, 60_000);
  await receiver.completeMessage(got);
  await nothing(receiver);
});

check("bodies keep their kind", async (world) => {
  const { sender, receiver } = await world.queue();
  const binary = Buffer.from([0, 1, 254, 255]);
  await sender.sendMessages([{ body: binary }, { body: "text" }, { body: 42 }]);
  await sender.sendMessages({ bodyType: "value", body: "a value" });
  await sender.sendMessages({ bodyType: "sequence", body: [[1, "two"], [3]] });
  const got = await receive(receiver, 5);
  assert.deepEqual(bodies(got), [binary, "text", 42, "a value", [[1, "two"], [3]]]);
  assert.deepEqual(got.map((m) => m._rawAmqpMessage.bodyType), ["data", "data", "data", "value", "sequence"]);
});

check("a batch arrives whole and in order", async (world) => {
  const { sender, receiver } = await world.queue();
  const batch = await sender.createMessageBatch();
  const want = Array.from({ length: 100 }, (_, i) => `message ${i}`);
  for (const body of want) {
    assert.ok(batch.tryAddMessage({ body }), body);
  }
  await sender.sendMessages(batch);
  const got = await receive(receiver, 100);
  assert.deepEqual(bodies(got), want);
  assert.deepEqual(got.map((m) => m.sequenceNumber.toNumber()), want.map((_, i) => i + 1));
});

check("a batch is full at 256 KB", async (world) => {
  const { sender, receiver } = await world.queue();
  const batch = await sender.createMessageBatch();
  assert.equal(batch.maxSizeInBytes, 256 * 1024);
  assert.ok(batch.tryAddMessage({ body: Buffer.alloc(200 * 1024, "x") }));
  assert.ok(!batch.tryAddMessage({ body: Buffer.alloc(100 * 1024) }), "300 KB are too much for a batch");
  await sender.sendMessages(batch);
  assert.deepEqual((await receiveOne(receiver)).body, Buffer.alloc(200 * 1024, "x"));
});

check("receive and delete leaves nothing behind", async (world) => {
  const { name, sender, receiver } = await world.queue();
  const deleting = world.client.createReceiver(name, { receiveMode: "receiveAndDelete" });
  await sender.sendMessages([{ body: "a" }, { body: "b" }]);
  const got = await receive(deleting, 2);
  assert.deepEqual(bodies(got), ["a", "b"]);
  assert.equal(got[0].lockToken, undefined);
  assert.equal(got[0].lockedUntilUtc, undefined);
  await deleting.close();
  await nothing(receiver);
});

check("peeking locks nothing and sees every state", async (world) => {
  const { sender, receiver } = await world.queue();
  await sender.sendMessages([{ body: "active" }, { body: "deferred" }, { body: "locked" }]);
  await sender.scheduleMessages({ body: "scheduled" }, later(60_000));
  const [active, deferred] = await receive(receiver, 3);
  await receiver.deferMessage(deferred);
  await receiver.abandonMessage(active);
  const peeked = await receiver.peekMessages(10);
  assert.deepEqual(
    peeked.map((m) => `${m.body} is ${m.state}`),
    ["active is active", "deferred is deferred", "locked is active", "scheduled is scheduled"],
  );
  assert.deepEqual(peeked.map((m) => m.lockToken), Array(4).fill(undefined));
  assert.deepEqual(bodies(await receiver.peekMessages(1, { fromSequenceNumber: deferred.sequenceNumber })), ["deferred"]);
  assert.equal((await receiveOne(receiver)).body, "active");
});

check("successive peeks go on where the last one ended", async (world) => {
  const { sender, receiver } = await world.queue();
  await sender.sendMessages(["a", "b", "c"].map((body) => ({ body })));
  assert.deepEqual(bodies(await receiver.peekMessages(2)), ["a", "b"]);
  assert.deepEqual(bodies(await receiver.peekMessages(2)), ["c"]);
  assert.deepEqual(bodies(await receiver.peekMessages(2)), []);
});

check("a scheduled message comes when it is due, under a new number", async (world) => {
  const { sender, receiver } = await world.queue();
  const due = later(1_500);
  const [number] = await sender.scheduleMessages({ body: "later", messageId: "m" }, due);
  await nothing(receiver);
  const got = await receiveOne(receiver);
  assert.equal(got.body, "later");
  assert.equal(got.messageId, "m");
  assert.ok(Date.now() >= due - 100, "not before it was due");
  assert.ok(got.sequenceNumber.greaterThan(number), "activation gives a new number");
  assert.ok(got.enqueuedTimeUtc >= due - 100, "enqueued when it became active");
});

check("a scheduled message that was cancelled never comes", async (world) => {
  const { sender, receiver } = await world.queue();
  const numbers = await sender.scheduleMessages([{ body: "a" }, { body: "b" }, { body: "c" }], later(800));
  assert.equal(numbers.length, 3);
  await sender.cancelScheduledMessages([numbers[0], numbers[2]]);
  assert.equal((await receiveOne(receiver)).body, "b");
  await nothing(receiver);
  await refused(sender.cancelScheduledMessages(numbers[0]), "MessageNotFound");
});

check("a message that sets its own time is scheduled, also in a batch", async (world) => {
  const { sender, receiver } = await world.queue();
  await sender.sendMessages([{ body: "later", scheduledEnqueueTimeUtc: later(1_000) }, { body: "now" }]);
  assert.deepEqual(bodies(await receive(receiver, 2)), ["now", "later"]);
});

check("a drain loses no message and counts no delivery", async (world) => {
  // rhea drains what credit is left when the wait is over; a message that is on
  // its way then must either arrive or stay.
  const { sender, receiver } = await world.queue();
  for (let round = 0; round < 10; round++) {
    const waiting = receiver.receiveMessages(10, { maxWaitTimeInMs: 100 });
    await sleep(round * 20);
    await sender.sendMessages({ body: round });
    const got = await waiting;
    if (got.length === 0) got.push(await receiveOne(receiver));
    assert.deepEqual(bodies(got), [round]);
    assert.equal(got[0].deliveryCount, 0);
    await receiver.completeMessage(got[0]);
  }
  await nothing(receiver);
});

check("after a drain of less than was asked for, the rest can be received", async (world) => {
  const { sender, receiver } = await world.queue();
  await sender.sendMessages([{ body: 1 }, { body: 2 }]);
  assert.deepEqual(bodies(await receiver.receiveMessages(50, { maxWaitTimeInMs: 500 })), [1, 2]);
  await sender.sendMessages({ body: 3 });
  assert.deepEqual(bodies(await receiver.receiveMessages(50, { maxWaitTimeInMs: 500 })), [3]);
});

check("a subscription callback gets every message once", async (world) => {
  const { sender, receiver } = await world.queue();
  const want = Array.from({ length: 50 }, (_, i) => i);
  const got = [];
  const done = new Promise((resolve, reject) => {
    receiver.subscribe(
      {
        processMessage: async (m) => {
          got.push(m.body);
          if (got.length === want.length) resolve();
        },
        processError: async ({ error }) => reject(error),
      },
      { maxConcurrentCalls: 8 },
    );
  });
  await sender.sendMessages(want.map((body) => ({ body })));
  await done;
  await receiver.close(); // waits for settlements under way
  assert.deepEqual(got.sort((a, b) => a - b), want);
  await nothing(world.client.createReceiver(receiver.entityPath));
});

check("a duplicate is accepted and dropped", async (world) => {
  const { sender, receiver } = await world.queue({ requiresDuplicateDetection: true, duplicateDetectionHistoryTimeWindow: seconds(30) });
  await sender.sendMessages({ body: "first", messageId: "m" });
  await sender.sendMessages({ body: "second", messageId: "m" });
  await sender.sendMessages({ body: "other", messageId: "n" });
  assert.deepEqual(bodies(await receive(receiver, 2)), ["first", "other"]);
  await nothing(receiver);
});

check("an unknown queue is not found", async (world) => {
  const name = world.name();
  await refused(world.client.createSender(name).sendMessages({ body: "x" }), "MessagingEntityNotFound");
  await refused(world.client.createReceiver(name).receiveMessages(1), "MessagingEntityNotFound");
});

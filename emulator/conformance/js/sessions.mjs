// Sessions and their state.
import { assert, bodies, check, nothing, receive, receiveOne, refused, seconds, sleep } from "./world.mjs";

const sessions = { requiresSession: true, lockDuration: seconds(10) };

check("a session's messages come in order, to its receiver only", async (world) => {
  const { name, sender } = await world.queue(sessions);
  await sender.sendMessages([
    { sessionId: "s1", body: 1 },
    { sessionId: "s2", body: 2 },
    { sessionId: "s1", body: 3 },
  ]);
  const s1 = await world.client.acceptSession(name, "s1");
  const got = await receive(s1, 2);
  assert.deepEqual(bodies(got), [1, 3]);
  assert.deepEqual(got.map((m) => m.sessionId), ["s1", "s1"]);
  await nothing(s1);
  assert.deepEqual(bodies(await s1.peekMessages(5)), [1, 3], "peeking sees the session");
  for (const m of got) await s1.completeMessage(m);
});

check("a session is locked by one receiver at a time", async (world) => {
  const { name, sender } = await world.queue(sessions);
  await sender.sendMessages({ sessionId: "s", body: "x" });
  const holder = await world.client.acceptSession(name, "s");
  await refused(world.client.acceptSession(name, "s"), "SessionCannotBeLocked");
  await holder.close();
  const next = await world.client.acceptSession(name, "s");
  const got = await receiveOne(next);
  assert.equal(got.deliveryCount, 0, "closing a session counts no delivery");
});

check("the next session is one that nobody holds", async (world) => {
  const { name, sender } = await world.queue(sessions);
  await sender.sendMessages([{ sessionId: "a", body: 1 }, { sessionId: "b", body: 2 }]);
  const first = await world.client.acceptNextSession(name);
  const second = await world.client.acceptNextSession(name);
  assert.deepEqual([first.sessionId, second.sessionId].sort(), ["a", "b"]);
  await refused(world.client.acceptNextSession(name, { maxAutoLockRenewalDurationInMs: 0 }), "ServiceTimeout");
});

check("a session that was closed with messages in hand gives them back uncounted", async (world) => {
  const { name, sender } = await world.queue(sessions);
  await sender.sendMessages([{ sessionId: "s", body: 1 }, { sessionId: "s", body: 2 }]);
  const first = await world.client.acceptSession(name, "s");
  assert.equal((await receive(first, 2)).length, 2);
  await first.close();
  const got = await receive(await world.client.acceptSession(name, "s"), 2);
  assert.deepEqual(got.map((m) => [m.body, m.deliveryCount]), [[1, 0], [2, 0]]);
});

check("a session's state outlives its receiver", async (world) => {
  const { name } = await world.queue(sessions);
  const first = await world.client.acceptSession(name, "s");
  assert.equal(await first.getSessionState(), null, "no state yet");
  await first.setSessionState({ step: 3 });
  await first.close();
  const second = await world.client.acceptSession(name, "s");
  assert.deepEqual(await second.getSessionState(), { step: 3 });
  await second.setSessionState(null);
  assert.equal(await second.getSessionState(), null, "cleared");
});

check("a session's lock can be renewed", async (world) => {
  const { name } = await world.queue(sessions);
  const s = await world.client.acceptSession(name, "s", { maxAutoLockRenewalDurationInMs: 0 });
  const before = s.sessionLockedUntilUtc;
  await sleep(1_000);
  const until = await s.renewSessionLock();
  assert.ok(until - before >= 500, `from ${before.toISOString()} to ${until.toISOString()}`);
});

check("a lost session lock settles nothing", async (world) => {
  const { name, sender } = await world.queue({ requiresSession: true, lockDuration: seconds(5) });
  await sender.sendMessages({ sessionId: "s", body: "x" });
  const first = await world.client.acceptSession(name, "s", { maxAutoLockRenewalDurationInMs: 0 });
  const lost = await receiveOne(first);
  await sleep(first.sessionLockedUntilUtc - Date.now() + 300);
  await refused(first.completeMessage(lost), "SessionLockLost");
  const second = await world.client.acceptSession(name, "s");
  assert.equal((await receiveOne(second)).deliveryCount, 1, "an expired session lock is a failed delivery");
});

check("a deferred message is received in its session", async (world) => {
  const { name, sender } = await world.queue(sessions);
  await sender.sendMessages({ sessionId: "s", body: "x" });
  const s = await world.client.acceptSession(name, "s");
  const got = await receiveOne(s);
  await s.deferMessage(got);
  const [again] = await s.receiveDeferredMessages(got.sequenceNumber);
  assert.equal(again.body, "x");
  await s.completeMessage(again);
});

check("an entity with sessions refuses what has none", async (world) => {
  const { name, sender } = await world.queue(sessions);
  await refused(sender.sendMessages({ body: "x" }), "GeneralError");
  await refused(world.client.createReceiver(name).receiveMessages(1), "GeneralError");
});

// What every check starts with: a connection of its own, and entities that no
// other check knows.
import { strict as assert } from "node:assert";
import { webcrypto } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { ServiceBusAdministrationClient, ServiceBusClient } from "@azure/service-bus";
import { check } from "./checks.mjs";

globalThis.crypto ??= webcrypto; // which the client expects, and Node.js 18 has only there

const connectionString = process.env.SERVICEBUS_CONNECTION_STRING;
assert.ok(connectionString, "SERVICEBUS_CONNECTION_STRING says where the emulator is");

// A check that needs a second attempt has found something: nothing is retried.
const options = { retryOptions: { maxRetries: 0, timeoutInMs: 10_000 } };

export class World {
  #prefix;
  #made = 0;

  constructor(prefix) {
    this.#prefix = prefix;
    this.client = new ServiceBusClient(connectionString, options);
    this.admin = new ServiceBusAdministrationClient(connectionString, { retryOptions: { maxRetries: 0 } });
  }

  name() {
    return `${this.#prefix}-${this.#made++}`;
  }

  /** queue makes a queue and returns its name with a sender and a receiver. */
  async queue(properties = {}) {
    const name = this.name();
    await this.admin.createQueue(name, properties);
    const receiver = properties.requiresSession ? undefined : this.client.createReceiver(name);
    return { name, sender: this.client.createSender(name), receiver };
  }

  /** topic makes a topic with subscriptions, whose only rule stands for what they take. */
  async topic(subscriptions) {
    const name = this.name();
    await this.admin.createTopic(name);
    for (const [subscription, { filter, action, ...properties }] of Object.entries(subscriptions)) {
      const rule = filter ? { defaultRuleOptions: { name: "only", filter, action } } : {};
      await this.admin.createSubscription(name, subscription, { ...properties, ...rule });
    }
    return { name, sender: this.client.createSender(name), of: (s) => this.client.createReceiver(name, s) };
  }

  close() {
    return this.client.close();
  }
}

/** receive returns exactly n messages, in the order in which they came. */
export async function receive(receiver, n) {
  const messages = [];
  while (messages.length < n) {
    const more = await receiver.receiveMessages(n - messages.length, { maxWaitTimeInMs: 5_000 });
    assert.ok(more.length > 0, `${messages.length} of ${n} messages came, then none for 5 s`);
    messages.push(...more);
  }
  return messages;
}

/** receiveOne returns the next message. */
export async function receiveOne(receiver) {
  return (await receive(receiver, 1))[0];
}

/** nothing asserts that no message is available. */
export async function nothing(receiver, ms = 300) {
  const messages = await receiver.receiveMessages(1, { maxWaitTimeInMs: ms });
  assert.deepEqual(messages.map((m) => m.body), [], "messages that should not be there");
}

/** refused asserts that something fails with this code of the client's. */
export async function refused(promise, code) {
  const err = await promise.then(
    (value) => assert.fail(`it was not refused but returned ${JSON.stringify(value)}`),
    (err) => err,
  );
  assert.equal(err.code, code, `refused as ${err.code ?? err.name}: ${err.message}`);
}

export const bodies = (messages) => messages.map((m) => m.body);
export const seconds = (n) => `PT${n}S`;
export const later = (ms) => new Date(Date.now() + ms);
export { assert, check, sleep };

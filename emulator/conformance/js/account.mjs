// What every check of Cosmos DB starts with: a client of its own, and databases
// that no other check knows.
import { strict as assert } from "node:assert";
import { webcrypto } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { CosmosClient } from "@azure/cosmos";
import { check } from "./checks.mjs";

globalThis.crypto ??= webcrypto;

const endpoint = process.env.COSMOS_ENDPOINT;
const key = process.env.COSMOS_KEY;
assert.ok(endpoint && key, "COSMOS_ENDPOINT and COSMOS_KEY say where the emulator is");

export class Account {
  #prefix;
  #made = 0;

  constructor(prefix) {
    this.#prefix = prefix;
    this.client = this.connect();
  }

  /** connect makes a client; nothing is retried, and it looks at nothing in the background. */
  connect(options = {}) {
    return new CosmosClient({
      endpoint,
      key,
      connectionPolicy: { enableBackgroundEndpointRefreshing: false, retryOptions: { maxRetryAttemptCount: 0 } },
      ...options,
    });
  }

  name() {
    return `${this.#prefix}-${this.#made++}`;
  }

  async database() {
    return (await this.client.databases.create({ id: this.name() })).database;
  }

  /** container makes a container partitioned by /pk, in a database of its own. */
  async container(definition = {}) {
    const database = await this.database();
    const { container } = await database.containers.create({ id: "items", partitionKey: { paths: ["/pk"], version: 2 }, ...definition });
    return container;
  }

  /** filled makes a container with items 0 to 11, in three logical partitions. */
  async filled(definition = {}) {
    const container = await this.container(definition);
    for (let n = 0; n < 12; n++) {
      const item = { id: `${n}`, pk: `p${n % 3}`, n, city: ["Rom", "Ulm"][n % 2], tags: [`t${n % 4}`, "all"] };
      if (n % 5 === 0) delete item.city;
      await container.items.create(item);
    }
    return container;
  }

  async close() {
    this.client.dispose();
  }
}

/** refused asserts that something fails with this status, and a message that says this. */
export async function refused(promise, code, says = /./) {
  const err = await promise.then(
    (value) => assert.fail(`it was not refused but answered ${value?.statusCode ?? value}`),
    (err) => err,
  );
  assert.equal(err.code, code, `refused as ${err.code}: ${err.message}`);
  assert.match(err.message, says);
  return err;
}

/** all gives the results of every page. */
export async function all(iterator) {
  return (await iterator.fetchAll()).resources;
}

/** pages gives the results page by page. */
export async function pages(iterator) {
  const list = [];
  while (iterator.hasMoreResults()) {
    const { resources } = await iterator.fetchNext();
    if (resources !== undefined) list.push(resources);
  }
  return list;
}

export { assert, check, sleep };

// What runs checks, one after the other, and prints a line for each.
import { setTimeout as sleep } from "node:timers/promises";

const limit = 30_000;

const checks = [];

/** check declares one: its name is a sentence, its body gets a World. */
export function check(name, body) {
  checks.push({ name, body });
}

/** runChecks runs those that are chosen by name, each in a world of its own. */
export async function runChecks(chosen, worldOf) {
  let passed = 0;
  let failed = 0;
  for (const [i, { name, body }] of checks.entries()) {
    if (!chosen.test(name)) continue;
    const world = worldOf(`second-${i}`);
    const start = Date.now();
    try {
      await within(limit, body(world));
      passed++;
      console.log(`ok   ${name} (${((Date.now() - start) / 1000).toFixed(1)} s)`);
    } catch (err) {
      failed++;
      console.log(`FAIL ${name}: ${String(err.stack ?? err).replaceAll("\n", "\n     | ")}`);
    }
    await within(limit, world.close()).catch((err) => console.log(`     | closing: ${err}`));
  }
  return { passed, failed };
}

async function within(ms, promise) {
  const timer = new AbortController();
  const late = sleep(ms, undefined, { signal: timer.signal }).then(() => {
    throw new Error(`not done after ${ms} ms`);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    timer.abort();
    late.catch(() => {});
  }
}

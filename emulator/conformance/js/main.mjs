// The Service Bus emulator under @azure/service-bus for Node.js, whose AMQP is
// rhea. Prints one line for each check, then how many passed.
//
//   SERVICEBUS_CONNECTION_STRING   where, and with the key that may do everything
//   node main.mjs [EXPRESSION]     the checks whose names match, or all
import { runChecks } from "./checks.mjs";
import { World } from "./world.mjs";
import "./messages.mjs";
import "./settlement.mjs";
import "./sessions.mjs";
import "./topics.mjs";
import "./administration.mjs";

const { passed, failed } = await runChecks(new RegExp(process.argv[2] ?? ""), (prefix) => new World(prefix));
console.log(`second client: ${passed} passed, ${failed} failed`);
process.exit(failed === 0 && passed > 0 ? 0 : 1); // links that a failed check left open would keep the process alive
